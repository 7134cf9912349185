"""Sequences laid end to end, so that no token of a batch is padding between them.

All but attention treats a token by itself, so sequences may follow each other in one row as long as each attends to
itself alone. Batches of one number of tokens give a sequence the same vectors to the bit, wherever it lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from multiview.model.batch import add_snippet_means, add_view_weights, set_snippets
from multiview.model.layouts import TokenSequence
from multiview.model.plain import PlainBert, attend_within

PACKING = {"bert", "roberta", "xlm-roberta", "camembert"}
"""Model types whose tokens know their position from its id alone, and meet only in attention."""
IMPLEMENTATION = "multiview_packed"
"""The name of our attention among transformers' implementations."""


class Packed(NamedTuple):
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


def make_packed(sequences: Sequence[TokenSequence], pad_id: int, tokens: int) -> Packed:
    """Returns `sequences` in a row of `tokens` tokens, which must hold them all; the rest is filler."""
    lengths = [len(sequence.input_ids) for sequence in sequences]
    filler = tokens - sum(lengths)
    ids = [token for sequence in sequences for token in sequence.input_ids]
    positions = [
        position
        for sequence, length in zip(sequences, lengths, strict=True)
        for position in sequence.position_ids or range(length)
    ]
    weights = [torch.zeros(len(s.views), length) for s, length in zip(sequences, lengths, strict=True)]
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


def add_packed_means(embedded: Tensor, packed: Packed) -> Tensor:
    """Returns the input embeddings [1, T, D] of `packed` from its word embeddings `embedded`, as `add_snippet_means` does.

    Sequence by sequence, because the number of tokens that a product sums over changes its last bits.
    """
    filler = embedded.shape[1] - sum(packed.lengths)
    *each, rest = embedded.split([*packed.lengths, filler], dim=1)
    started = [
        add_snippet_means(sequence, viewers[None], snippets[None])
        for sequence, (viewers, snippets) in zip(each, packed.starts, strict=True)
    ]
    return torch.cat([*started, rest], dim=1)


def prepare_packing(encoder: nn.Module) -> bool:
    """Lets `encoder` read packed sequences, given their `lengths`; says whether it can. Padded batches it reads as before."""
    if isinstance(encoder, PlainBert):
        return True
    from transformers import AttentionInterface, PreTrainedModel
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    if not isinstance(encoder, PreTrainedModel) or encoder.config.model_type not in PACKING:
        return False
    AttentionInterface.register(IMPLEMENTATION, _attention)
    AttentionMaskInterface.register(IMPLEMENTATION, sdpa_mask)
    encoder.set_attn_implementation(IMPLEMENTATION)
    return True


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    lengths: Sequence[int] | None = None,
    **arguments: Any,
) -> tuple[Tensor, Tensor | None]:
    """transformers' attention, within each sequence where there are `lengths`."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    if lengths is None:
        return sdpa_attention_forward(module, query, key, value, mask, **arguments)
    return attend_within(query, key, value, lengths).transpose(1, 2), None
