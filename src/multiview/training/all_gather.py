"""The batch of a step on several processes: each process encodes its share and sees the whole batch.

Every process computes the loss of the whole batch from the vectors of all processes, as a single process would. The
gradient reaches only the vectors that the process encoded. DistributedDataParallel takes the mean of these gradients
over the processes; multiplied by the number of processes, it is the gradient that a single process would have.
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
    """Gathers a step's vectors from all processes: (question vectors [B, D], pooled rows [N, D], whole batch).

    `view_index` of the returned batch points into the pooled rows of all passages. `questions` [b, D] and `vectors`
    [S, V', D] belong to this process's share. Processes may differ in their numbers of questions, passages, sequences
    and views. A batch that is not a share (without `order`) is returned unchanged.
    """
    rows = vectors.flatten(0, 1)
    if "order" not in batch:
        return questions, rows, batch
    sizes = torch.tensor([[len(questions), len(rows), *batch["view_index"].shape]], device=rows.device)
    sizes = _gather(sizes, [1] * distributed.get_world_size())
    question_counts, row_counts, passage_counts, widths = sizes.T.tolist()
    width = max(widths)
    start = [0, *accumulate(row_counts)][distributed.get_rank()]
    views = torch.stack(
        [batch["view_index"] + start, batch["view_mask"].long(), batch["real_views"].long()], dim=-1
    )
    views = _gather(pad(views, (0, 0, 0, width - views.shape[1])), passage_counts)[batch["order"]]
    answers = torch.stack([batch["answer_views"].long(), batch["other_views"].long()])
    answers = pad(answers, (0, width - answers.shape[-1])).transpose(0, 1)
    answer_views, other_views = _gather(answers, question_counts).unbind(dim=1)
    view_index, view_mask, real_views = views.unbind(dim=-1)
    gathered: TrainingBatch = {
        **batch,
        "view_index": view_index,
        "view_mask": view_mask.bool(),
        "real_views": real_views.bool(),
        "answer_views": answer_views.bool(),
        "other_views": other_views.bool(),
    }
    del gathered["order"]
    questions = _GatherRows.apply(questions.float(), question_counts)
    return questions, _GatherRows.apply(rows.float(), row_counts), gathered


def check_same_start(checkpoint: Path | None) -> None:
    """Raises ProcessFailed where the processes would resume from different checkpoints.

    That can happen on several nodes, which look for the latest checkpoint one after another.
    """
    if not distributed.is_initialized():
        return
    starts: list[str | None] = [None] * distributed.get_world_size()
    distributed.all_gather_object(starts, checkpoint.name if checkpoint else "the start")
    if len(set(starts)) > 1:
        names = ", ".join(sorted(map(str, set(starts))))
        raise ProcessFailed(f"nodes would resume from different checkpoints ({names}): try the step again")


class _GatherRows(torch.autograd.Function):
    """The rows of all processes; the gradient is that of this process's rows, times the number of processes."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, lengths: Sequence[int]) -> Tensor:
        start = [0, *accumulate(lengths)][distributed.get_rank()]
        ctx.local_rows = slice(start, start + len(rows))
        ctx.processes = len(lengths)
        return _gather(rows, lengths)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0][ctx.local_rows] * ctx.processes, None


def _gather(rows: Tensor, lengths: Sequence[int]) -> Tensor:
    """The rows of all processes, in the order of their ranks; `lengths` are the numbers of rows per process."""
    # Collectives take equal shapes only.
    filled = pad(rows.detach(), (0, 0) * (rows.dim() - 1) + (0, max(lengths) - len(rows))).contiguous()
    parts = [torch.empty_like(filled) for _ in lengths]
    distributed.all_gather(parts, filled)
    return torch.cat([part[:length] for part, length in zip(parts, lengths, strict=True)])
