"""The batch of a step on several processes: each encodes its share, all see the whole.

Every process computes the loss of the whole batch from everybody's vectors, as one process alone would. Its
gradient then reaches its own vectors only; the mean over processes that DistributedDataParallel takes of that,
times their number, is the gradient of one process.
"""

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed
from torch.nn.functional import pad

from multiview.errors import ProcessFailed
from multiview.training.batches import TrainingBatch


def whole_batch(
    questions: Tensor, vectors: Tensor, batch: TrainingBatch
) -> tuple[Tensor, Tensor, TrainingBatch]:
    """The questions' vectors [B, D], the pooled rows [N, D] of all passages, and a batch whose `view_index` points into these rows.

    `questions` [b, D] and `vectors` [S, V', D] are those of this process's share. Processes may differ in their
    numbers of questions, passages, sequences and views. A batch that is nobody's share is given back as it is.
    """
    rows = vectors.flatten(0, 1)
    if "order" not in batch:
        return questions, rows, batch
    sizes = _sizes([len(questions), len(rows), *batch["view_index"].shape], rows.device)
    asked, pooled, passages, widths = zip(*sizes, strict=True)
    width = max(widths)
    start = [0, *accumulate(pooled)][distributed.get_rank()]
    known = torch.stack(
        [batch["view_index"] + start, batch["view_mask"].long(), batch["real_views"].long()], dim=-1
    )
    known = _gather(pad(known, (0, 0, 0, width - known.shape[1])), passages)[batch["order"]]
    answers = batch["answer_views"].long()
    answers = _gather(pad(answers, (0, width - answers.shape[1])), asked)
    view_index, view_mask, real_views = known.unbind(dim=-1)
    gathered = TrainingBatch(
        questions=batch["questions"],
        passages=batch["passages"],
        view_index=view_index,
        view_mask=view_mask.bool(),
        real_views=real_views.bool(),
        positive=batch["positive"],
        excluded=batch["excluded"],
        answer_views=answers.bool(),
    )
    return _apply(questions.float(), asked), _apply(rows.float(), pooled), gathered


def check_same_start(checkpoint: Path | None) -> None:
    """ProcessFailed where the processes would go on from different checkpoints, as nodes may that look one after another."""
    if not distributed.is_initialized():
        return
    found: list[str | None] = [None] * distributed.get_world_size()
    distributed.all_gather_object(found, checkpoint.name if checkpoint else "the start")
    if len(set(found)) > 1:
        names = ", ".join(sorted(map(str, set(found))))
        raise ProcessFailed(f"nodes would go on from different checkpoints ({names}): try the step again")


class _Gathered(torch.autograd.Function):
    """Everybody's rows; the gradient of one's own, times the number of processes."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, lengths: Sequence[int]) -> Tensor:
        start = [0, *accumulate(lengths)][distributed.get_rank()]
        ctx.own = slice(start, start + len(own))
        ctx.processes = len(lengths)
        return _gather(own, lengths)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return gradients[0][ctx.own] * ctx.processes, None


def _apply(own: Tensor, lengths: Sequence[int]) -> Tensor:
    gathered: Any = _Gathered.apply(own, lengths)
    return gathered


def _gather(own: Tensor, lengths: Sequence[int]) -> Tensor:
    """The rows of all processes, in order of their ranks; `lengths` says how many each has."""
    # Collectives take equal shapes only.
    filled = pad(own.detach(), (0, 0) * (own.dim() - 1) + (0, max(lengths) - len(own))).contiguous()
    parts = [torch.empty_like(filled) for _ in lengths]
    distributed.all_gather(parts, filled)
    return torch.cat([part[:length] for part, length in zip(parts, lengths, strict=True)])


def _sizes(own: Sequence[int], device: torch.device) -> list[list[int]]:
    mine = torch.tensor(own, device=device)
    parts = [torch.empty_like(mine) for _ in range(distributed.get_world_size())]
    distributed.all_gather(parts, mine)
    return torch.stack(parts).tolist()
