"""Attention of sequences that lie end to end in one row, each to itself alone.

Where attention weights are dropped, torch leaves its fused kernel for one that draws slowly and computes in float32. In
training on a CPU that is a third of a step, so attention and its gradients are computed here as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from multiview.model.dropout import draw_kept, keep, share_kept

LOG2_E = math.log2(math.e)
LEAST, LARGEST = 2.0**-96, 2.0**120
"""Sums of powers of two in float32 that have lost no power that counts: its numbers end at 2^-126 and 2^127."""


def attend_within(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    lengths: Sequence[int],
    dropout: float = 0.0,
    asked: Sequence[int] | None = None,
) -> Tensor:
    """Returns the attention [1, H, T, d] of each sequence's tokens to that sequence; 0 for the filler after the last one.

    `dropout` is the share of the attention weights that are dropped. In inference `query` may hold fewer tokens than
    `key`: `asked` is how many of each sequence's.
    """
    if dropout or (torch.is_grad_enabled() and query.requires_grad):
        assert asked is None
        return _Attention.apply(query, key, value, lengths, dropout)
    attended = _zeros_like(query)
    # Without AMX torch's fused kernel is slower in bfloat16 than its parts. For few queries its bits depend on the number
    # of threads.
    in_parts = asked is not None or (query.dtype == torch.bfloat16 and not torch.cpu._is_amx_tile_supported())
    for by, within in zip(_ranges(lengths if asked is None else asked), _ranges(lengths), strict=True):
        q, k, v = query[by], key[within], value[within]
        if in_parts:
            attended[by] = _weights(q[0], k[0]) @ v[0]
        else:
            attended[by] = scaled_dot_product_attention(q, k, v)
    return attended


class _Attention(torch.autograd.Function):
    """softmax(Q Kᵀ / √d) V of each sequence, in which a share of the weights is 0 and the others are larger accordingly."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, lengths: Sequence[int], dropout: float
    ) -> Tensor:
        attended = _zeros_like(query)
        kept: list[Tensor] = []
        all_weights: list[Tensor] = []
        with torch.autocast("cpu", enabled=False):
            for within in _ranges(lengths):
                q, k, v = query[within][0], key[within][0], value[within][0]
                weights = _weights(q, k)
                all_weights.append(weights)
                if dropout:
                    kept.append(draw_kept(weights, dropout))
                    weights = keep(weights, kept[-1])
                attended[within][0].copy_(weights @ v)
            attended /= share_kept(dropout)
        ctx.lengths, ctx.dropout = lengths, dropout
        ctx.save_for_backward(query, key, value, *all_weights, *kept)
        return attended

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, *saved = ctx.saved_tensors
        all_weights, kept = saved[: len(ctx.lengths)], saved[len(ctx.lengths) :]
        found = tuple(_zeros_like(query) for _ in range(3))
        gradient = gradients[0] / share_kept(ctx.dropout)
        for number, within in enumerate(_ranges(ctx.lengths)):
            q, k, v, of_attended = (each[within][0] for each in (query, key, value, gradient))
            weights = used = all_weights[number]
            of_weights = of_attended @ v.transpose(1, 2)
            if kept:
                used, of_weights = keep(weights, kept[number]), keep(of_weights, kept[number])
            of_scores = torch.ops.aten._softmax_backward_data(of_weights, weights, -1, weights.dtype)
            of_scores *= q.shape[-1] ** -0.5
            found[0][within][0].copy_(of_scores @ k)
            found[1][within][0].copy_(of_scores.transpose(1, 2) @ q)
            found[2][within][0].copy_(used.transpose(1, 2) @ of_attended)
        return *found, None, None


def _weights(query: Tensor, key: Tensor) -> Tensor:
    """The attention weights [H, L, L] of one sequence, from scores that are at least float32.

    They are shares of powers of two, which torch computes in half of softmax's time, and softmax's where a sum of them
    is not between `LEAST` and `LARGEST`.
    """
    dtype, precise = query.dtype, torch.promote_types(query.dtype, torch.float32)
    query, key = query.to(precise) * (query.shape[-1] ** -0.5 * LOG2_E), key.to(precise).transpose(1, 2)
    powers = (query @ key).exp2_()
    sums = powers.sum(-1, keepdim=True)
    least, largest = map(float, torch.aminmax(sums))
    if not LEAST < least <= largest < LARGEST:
        return torch.softmax((query @ key) / LOG2_E, dim=-1).to(dtype)
    return powers.mul_(sums.reciprocal_()).to(dtype)


def _ranges(lengths: Sequence[int]) -> Iterator[tuple[slice, ...]]:
    """The place of each sequence in tensors [1, H, T, d]."""
    for start, stop in pairwise(accumulate(lengths, initial=0)):
        yield slice(None), slice(None), slice(start, stop)


def _zeros_like(states: Tensor) -> Tensor:
    """Zeros of the shape of `states` [1, H, T, d], token by token in memory, as the layers before and after have them."""
    return torch.zeros_like(states.transpose(1, 2), memory_format=torch.contiguous_format).transpose(1, 2)
