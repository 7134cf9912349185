"""Sequences laid end to end, so that no token of a batch is padding between them.

All but attention treats a token by itself, so sequences may follow each other in one row as long as each attends to
itself alone. Batches of one number of tokens give a sequence the same vectors to the bit, wherever it lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from multiview.model.attention import attend_within
from multiview.model.batch import Packed, add_snippet_means
from multiview.model.plain import PlainBert

PACKING = {"bert", "roberta", "xlm-roberta", "camembert"}
"""Model types whose tokens know their position from its id alone, and meet only in attention."""
IMPLEMENTATION = "multiview_packed"
"""The name of our attention among transformers' implementations."""


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
    dropout: float = 0.0,
    **arguments: Any,
) -> tuple[Tensor, Tensor | None]:
    """transformers' attention, within each sequence where there are `lengths`."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    if lengths is None:
        return sdpa_attention_forward(module, query, key, value, mask, dropout=dropout, **arguments)
    return attend_within(query, key, value, lengths, dropout).transpose(1, 2), None
