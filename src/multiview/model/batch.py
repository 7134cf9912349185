"""Token sequences as tensors, and views as weights over tokens."""

from collections.abc import Sequence
from typing import NotRequired, TypedDict

import torch
from torch import Tensor

from multiview.model.layouts import TokenSequence


class Batch(TypedDict):
    """S sequences, padded to L tokens, with up to V views each."""

    input_ids: Tensor
    """int64 [S, L]."""
    attention_mask: Tensor
    """int64 [S, L], 1 for tokens."""
    weights: Tensor
    """float32 [S, V, L]: a view's vector is its weights times the last hidden states; all 0 for a missing view."""
    position_ids: NotRequired[Tensor]
    """int64 [S, L], counted from 0; absent: the base model's default positions."""


def make_batch(
    sequences: Sequence[TokenSequence],
    pad_id: int,
    max_views: int,
    length: int | None = None,
    rows: int | None = None,
) -> Batch:
    """Returns a batch of `sequences`, which have up to `max_views` views each.

    They are padded to `length` tokens (by default the length of the longest one) and filled up to `rows` rows with
    copies of the last sequence.
    """
    filled = [*sequences, *[sequences[-1]] * ((rows or 0) - len(sequences))]
    length = length or max(len(sequence.input_ids) for sequence in filled)
    input_ids = torch.full((len(filled), length), pad_id, dtype=torch.int64)
    attention_mask = torch.zeros(len(filled), length, dtype=torch.int64)
    weights = torch.zeros(len(filled), max_views, length)
    positioned = any(sequence.position_ids is not None for sequence in filled)
    position_ids = torch.zeros(len(filled), length, dtype=torch.int64)
    for row, sequence in enumerate(filled):
        tokens = len(sequence.input_ids)
        input_ids[row, :tokens] = torch.tensor(sequence.input_ids)
        attention_mask[row, :tokens] = 1
        if positioned:
            position_ids[row, :tokens] = torch.tensor(sequence.position_ids or range(tokens))
        for column, view in enumerate(sequence.views):
            for start, stop in view.runs:
                weights[row, column, start:stop] += 1 / (stop - start)
    batch = Batch(input_ids=input_ids, attention_mask=attention_mask, weights=weights)
    if positioned:
        batch["position_ids"] = position_ids
    return batch


def to_device(batch: Batch, device: torch.device) -> Batch:
    """The batch on `device`."""
    return {  # pyright: ignore[reportReturnType]
        name: tensor.to(device)  # pyright: ignore[reportAttributeAccessIssue]
        for name, tensor in batch.items()
    }


def pool(hidden: Tensor, weights: Tensor) -> Tensor:
    """Returns vectors [S, V, D] in float32 from hidden states [S, L, D] and weights [S, V, L].

    Computed outside autocast, because scores of 50 to 130 differ between views by less than half precision resolves.
    """
    with torch.autocast(hidden.device.type, enabled=False):
        return torch.bmm(weights.float(), hidden.float())
