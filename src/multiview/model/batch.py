"""Token sequences as tensors, and views as weights over tokens."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import NotRequired, TypedDict, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from multiview.data.arrays import rows_in
from multiview.model.layouts.base import TokenRange, TokenSequence


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
    viewers: NotRequired[Tensor]
    """int64 [S, V]: the viewer token of each view, 0 for a missing view; present with `snippets`."""
    snippets: NotRequired[Tensor]
    """float32 [S, V, L]: weights of the mean over a view's snippet, from which its viewer token starts
    (`add_snippet_means`); all 0 for an empty snippet and a missing view."""


class Groups(TypedDict):
    """S sequences in groups of similar length, so that few tokens are padding."""

    batches: list[Batch]
    """The groups, the longest sequences first, each padded to its own longest sequence."""
    order: Tensor
    """int64 [S]: the position of each sequence when the groups are concatenated."""


def make_batch(
    sequences: Sequence[TokenSequence],
    pad_id: int,
    max_views: int,
    length: int | None = None,
    rows: int | None = None,
) -> Batch:
    """Returns a batch of `sequences`, which have up to `max_views` views each, padded to `length` tokens (by default those of
    the longest one) and filled up to `rows` rows with copies of the last one."""
    filled = [*sequences, *[sequences[-1]] * ((rows or 0) - len(sequences))]
    lengths = np.array([len(sequence.input_ids) for sequence in filled])
    present = np.arange(length or lengths.max()) < lengths[:, None]
    batch = Batch(
        input_ids=_padded([sequence.input_ids for sequence in filled], present, pad_id),
        attention_mask=torch.from_numpy(present.astype(np.int64)),
        weights=_mean_weights(
            [[view.runs for view in sequence.views] for sequence in filled], max_views, present.shape[1]
        ),
    )
    if any(sequence.position_ids for sequence in filled):
        positions = [each.position_ids or range(len(each.input_ids)) for each in filled]
        batch["position_ids"] = _padded(positions, present, 0)
    if any(sequence.snippets for sequence in filled):
        viewers = [[view.runs[0][0] for view in sequence.views] for sequence in filled]
        existing = np.arange(max_views) < np.array([len(row) for row in viewers])[:, None]
        batch["viewers"] = _padded(viewers, existing, 0)
        snippets = [[[snippet] for snippet in sequence.snippets] for sequence in filled]
        batch["snippets"] = _mean_weights(snippets, max_views, present.shape[1])
    return batch


def _padded(rows: Sequence[Sequence[int]], present: np.ndarray, padding: int) -> Tensor:
    """Returns int64 in the shape of `present`: the values of `rows` where it is true, `padding` elsewhere."""
    padded = np.full(present.shape, padding, np.int64)
    padded[present] = np.fromiter(chain.from_iterable(rows), np.int64)
    return torch.from_numpy(padded)


def _mean_weights(runs: Sequence[Sequence[Sequence[TokenRange]]], max_views: int, length: int) -> Tensor:
    """Returns weights [S, V, L] float32 that give each view the sum of the means of its runs of tokens."""
    weights = np.zeros((len(runs), max_views, length), np.float32)
    located = [
        ((row * max_views + view) * length + start, stop - start)
        for row, views in enumerate(runs)
        for view, its_runs in enumerate(views)
        for start, stop in its_runs
        if start < stop
    ]
    if located:
        starts, sizes = np.array(located).T
        np.add.at(
            weights.reshape(-1), rows_in(starts, sizes), np.repeat((1 / sizes).astype(np.float32), sizes)
        )
    return torch.from_numpy(weights)


def make_groups(
    sequences: Sequence[TokenSequence],
    pad_id: int,
    max_views: int,
    group_cost: float = math.inf,
    most: int | None = None,
) -> Groups:
    """Returns `sequences`, which have up to `max_views` views each, in groups of similar length (`by_length`)."""
    groups = by_length([len(sequence.input_ids) for sequence in sequences], group_cost, most)
    order = torch.empty(len(sequences), dtype=torch.int64)
    order[[row for group in groups for row in group]] = torch.arange(len(sequences))
    return Groups(
        batches=[make_batch([sequences[row] for row in group], pad_id, max_views) for group in groups],
        order=order,
    )


def by_length(lengths: Sequence[int], group_cost: float, most: int | None = None) -> list[list[int]]:
    """Returns the positions of `lengths` in groups, the longest first.

    A group ends before it needs `group_cost` tokens of padding, the price of one more group, or exceeds `most` members.

    >>> by_length([9, 30, 8, 29], group_cost=10)
    [[1, 3], [0, 2]]
    """
    groups: list[list[int]] = []
    room = 0.0
    for position in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if groups:
            room -= lengths[groups[-1][0]] - lengths[position]
        if room <= 0 or len(groups[-1]) == most:
            groups.append([])
            room = group_cost
        groups[-1].append(position)
    return groups


def encode_groups(encode: Callable[[Batch], Tensor], groups: Groups, again: bool = False) -> Tensor:
    """Returns the vectors that `encode` gives for each group, joined in the order of the sequences.

    With `again` no activations are kept: the backward pass encodes each group anew, with the same dropout, when it
    comes to it (GradCache), so that it needs memory for one group at a time.
    """
    if again:
        encode = partial(checkpoint, encode, use_reentrant=False)
    return torch.cat([encode(batch) for batch in groups["batches"]])[groups["order"]]


def to_device(batch: Batch, device: torch.device) -> Batch:
    """The batch on `device`."""
    return cast(Batch, {name: moved(cast(Tensor, tensor), device) for name, tensor in batch.items()})


def moved(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on `device`; it is pinned on its way to a GPU, so that the copy holds up nothing else."""
    pinned = device.type == "cuda"
    return (tensor.pin_memory() if pinned else tensor).to(device, non_blocking=pinned)


def add_snippet_means(embedded: Tensor, viewers: Tensor, snippets: Tensor) -> Tensor:
    """Returns input embeddings [S, L, D] in which viewer tokens start from their snippets (`model.init=snippet-mean`; ours).

        x(VIE_i) = e(VIE_i) + 1/|s_i| Σ_{t in s_i} e(t)

    e are the word embeddings `embedded` [S, L, D], and e(VIE_i) is zero before training. All other tokens, and the
    viewer token of an empty snippet, keep their embeddings. Positions are added later, by the base model. `viewers`
    [S, V] and `snippets` [S, V, L] are those of `Batch`.
    """
    means = pool(embedded, snippets).to(embedded.dtype)
    return embedded.scatter_add(1, viewers[..., None].expand_as(means), means)


def pool(hidden: Tensor, weights: Tensor) -> Tensor:
    """Returns vectors [S, V, D] in float32 from hidden states [S, L, D] and weights [S, V, L].

    Computed outside autocast, because scores of 50 to 130 differ between views by less than half precision can resolve.
    """
    with torch.autocast(hidden.device.type, enabled=False):
        return torch.bmm(weights.float(), hidden.float())
