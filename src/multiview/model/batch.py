"""Token sequences as tensors, and views as weights over tokens."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NotRequired, TypedDict

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from multiview.model.layouts import TokenSequence, View

PACK_MULTIPLE = 64
"""The number of tokens in a packed row is a multiple of this, because oneDNN compiles a kernel for every number that it meets."""


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
    """float32 [S, V, L]: weights of the mean over a view's snippet, with which its viewer token starts
    (`add_snippet_means`); all 0 for an empty snippet and a missing view."""


@dataclass(frozen=True)
class Packed:
    """S sequences in one row of T tokens, the last of which may be filler."""

    input_ids: Tensor
    """int64 [1, T]."""
    position_ids: Tensor
    """int64 [1, T], counted from 0, in each sequence anew unless it has positions of its own."""
    lengths: list[int]
    """Tokens of each sequence [S]."""
    weights: list[Tensor]
    """float32 [V, L] of each sequence with its V views and L tokens, as those of `Batch`."""
    starts: Sequence[tuple[Tensor, Tensor]] = ()
    """`viewers` [V] and `snippets` [V, L] of each sequence, as those of `Batch`; empty where viewers start without snippets."""


class Groups(TypedDict):
    """S sequences in groups: of similar length, so that few tokens are padding, or packed."""

    batches: list[Batch] | list[Packed]
    """The groups. Padded ones begin with the longest sequences, and each is padded to its own longest sequence."""
    order: Tensor
    """int64 [S]: the position of each sequence when the groups are concatenated."""


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
        add_view_weights(weights[row], sequence.views)
    batch = Batch(input_ids=input_ids, attention_mask=attention_mask, weights=weights)
    if positioned:
        batch["position_ids"] = position_ids
    if any(sequence.snippets for sequence in filled):
        batch["viewers"] = torch.zeros(len(filled), max_views, dtype=torch.int64)
        batch["snippets"] = torch.zeros_like(weights)
        for row, sequence in enumerate(filled):
            set_snippets(batch["viewers"][row], batch["snippets"][row], sequence)
    return batch


def add_view_weights(weights: Tensor, views: Sequence[View]) -> None:
    """Adds the weights of `views` over a sequence's tokens to the rows of `weights` [V, L]."""
    for row, view in enumerate(views):
        for start, stop in view.runs:
            weights[row, start:stop] += 1 / (stop - start)


def set_snippets(viewers: Tensor, snippets: Tensor, sequence: TokenSequence) -> None:
    """Sets the viewer tokens [V] of a sequence's views, and the weights [V, L] of their snippets."""
    for row, (view, (start, stop)) in enumerate(zip(sequence.views, sequence.snippets, strict=True)):
        viewers[row] = view.runs[0][0]
        if start < stop:
            snippets[row, start:stop] = 1 / (stop - start)


def make_packed(sequences: Sequence[TokenSequence], pad_id: int, tokens: int, max_views: int = 0) -> Packed:
    """Returns `sequences` in a row of `tokens` tokens, which must hold them all; the rest is filler.

    Each sequence has weights of its own views, or of `max_views` where that is more.
    """
    lengths = [len(sequence.input_ids) for sequence in sequences]
    filler = tokens - sum(lengths)
    ids = [token for sequence in sequences for token in sequence.input_ids]
    positions = [
        position
        for sequence, length in zip(sequences, lengths, strict=True)
        for position in sequence.position_ids or range(length)
    ]
    weights = [
        torch.zeros(max(len(sequence.views), max_views), length)
        for sequence, length in zip(sequences, lengths, strict=True)
    ]
    for sequence, each in zip(sequences, weights, strict=True):
        add_view_weights(each, sequence.views)
    starts = []
    for sequence, each in zip(sequences, weights, strict=True):
        if sequence.snippets:
            viewers, snippets = torch.zeros(len(each), dtype=torch.int64), torch.zeros_like(each)
            set_snippets(viewers, snippets, sequence)
            starts.append((viewers, snippets))
    return Packed(
        torch.tensor([ids + [pad_id] * filler]),
        torch.tensor([positions + [0] * filler]),
        lengths,
        weights,
        starts,
    )


def make_packs(
    sequences: Sequence[TokenSequence], pad_id: int, max_views: int, tokens: int, most: int | None = None
) -> Groups:
    """Returns `sequences` packed in their order, in rows of up to `tokens` tokens and `most` sequences.

    A longer sequence has a row of its own. A row has a multiple of `PACK_MULTIPLE` tokens.
    """
    packs: list[list[TokenSequence]] = []
    room = 0
    for sequence in sequences:
        length = len(sequence.input_ids)
        if not packs or room < length or len(packs[-1]) == most:
            packs.append([])
            room = tokens
        packs[-1].append(sequence)
        room -= length
    totals = [sum(len(sequence.input_ids) for sequence in pack) for pack in packs]
    rows = [-(-total // PACK_MULTIPLE) * PACK_MULTIPLE for total in totals]
    return Groups(
        batches=[make_packed(pack, pad_id, row, max_views) for pack, row in zip(packs, rows, strict=True)],
        order=torch.arange(len(sequences)),
    )


def make_groups(
    sequences: Sequence[TokenSequence],
    pad_id: int,
    max_views: int,
    group_cost: float = math.inf,
    most: int | None = None,
) -> Groups:
    """Returns `sequences`, which have up to `max_views` views each, in groups of similar length, `most` per group.

    `group_cost` is the price of one more group, in tokens of padding; by default there is a single group.
    """
    groups = by_length([len(sequence.input_ids) for sequence in sequences], group_cost, most)
    order = torch.empty(len(sequences), dtype=torch.int64)
    order[[row for group in groups for row in group]] = torch.arange(len(sequences))
    return Groups(
        batches=[make_batch([sequences[row] for row in group], pad_id, max_views) for group in groups],
        order=order,
    )


def by_length(lengths: Sequence[int], group_cost: float, most: int | None = None) -> list[list[int]]:
    """Returns the positions of `lengths` in groups, the longest first.

    A group ends before it pads `group_cost` tokens or has more than `most` members.

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


def encode_groups(encode: Callable[[Any], Tensor], groups: Groups, again: bool = False) -> Tensor:
    """Returns the vectors that `encode` gives for each group, joined in the order of the sequences.

    With `again` no activations are kept: the backward pass encodes each group anew, with the same dropout, when it
    comes to it (GradCache), so that it needs memory for one group at a time.
    """
    if again:
        encode = partial(checkpoint, encode, use_reentrant=False)
    return torch.cat([encode(batch) for batch in groups["batches"]])[groups["order"]]


def to_device(batch: Batch, device: torch.device) -> Batch:
    """The batch on `device`; on its way to a GPU it is pinned, so that nothing waits for it."""
    pinned = device.type == "cuda"
    return {  # pyright: ignore[reportReturnType]
        name: (tensor.pin_memory() if pinned else tensor).to(device, non_blocking=pinned)  # pyright: ignore[reportAttributeAccessIssue]
        for name, tensor in batch.items()
    }


def add_snippet_means(embedded: Tensor, viewers: Tensor, snippets: Tensor) -> Tensor:
    """Returns input embeddings [S, L, D] in which viewer tokens start from their snippets (`model.init=snippet-mean`; ours).

        x(VIE_i) = e(VIE_i) + 1/|s_i| Σ_{t in s_i} e(t)

    e are the word embeddings `embedded` [S, L, D], and e(VIE_i) is zero before training. The embeddings of all other
    tokens, and of the viewer token of an empty snippet, stay as they are. Positions are added later, by the base model.
    `viewers` [S, V] and `snippets` [S, V, L] are those of `Batch`. Gradients reach e(VIE_i) and the word embeddings of
    the snippet.
    """
    means = pool(embedded, snippets).to(embedded.dtype)
    return embedded.scatter_add(1, viewers[..., None].expand_as(means), means)


def pool(hidden: Tensor, weights: Tensor) -> Tensor:
    """Returns vectors [S, V, D] in float32 from hidden states [S, L, D] and weights [S, V, L].

    Computed outside autocast, because scores of 50 to 130 differ between views by less than half precision resolves.
    """
    with torch.autocast(hidden.device.type, enabled=False):
        return torch.bmm(weights.float(), hidden.float())
