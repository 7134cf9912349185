"""Dropout of hidden states and of attention weights, set apart, and the draws of our own attention.

torch draws a number of 32 bits for every value; 16 bits are enough for the share that is dropped.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from multiview.errors import InputError

DRAWS = 1 << 16
"""As many equally likely draws decide whether a number is dropped, so a share is rounded to a multiple of 1 / `DRAWS`."""

INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integers by their number of bytes."""


def draw_kept(values: Tensor, share: float) -> Tensor:
    """Draws bool of the shape of `values`, each false with the probability `share`, by torch's generator of the CPU."""
    count = values.numel()
    draws = torch.empty(-(-count // 4), dtype=torch.int64).random_(torch.iinfo(torch.int64).min, None)
    return draws.view(torch.int16)[:count].view(values.shape) >= _dropped_draws(share) - DRAWS // 2


def keep(values: Tensor, kept: Tensor) -> Tensor:
    """Returns `values` with 0 for those not `kept`."""
    # As integers of their bits, because torch multiplies floats and bools one by one.
    integers = INTEGERS[values.element_size()]
    return (values.view(integers) * kept.to(integers)).view(values.dtype)


def share_kept(share: float) -> float:
    """Returns the probability with which `draw_kept` keeps a number."""
    return 1 - _dropped_draws(share) / DRAWS


def _dropped_draws(share: float) -> int:
    return min(round(share * DRAWS), DRAWS - 1)


def set_dropout(model: nn.Module, hidden: float, attention: float | None = None) -> None:
    """Sets the dropout of hidden states to `hidden`, and of attention weights to `attention`, by default `hidden` too.

    Raises InputError for a base model whose attention dropout is not found, where it is to be another than `hidden`.
    """
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = hidden
    found = [_set_attention_dropout(m, hidden if attention is None else attention) for m in attentions(model)]
    if attention not in (None, hidden) and not (found and all(found)):
        raise InputError(
            "train.attention_dropout: the base model does not tell its attention dropout; leave it out"
        )


def attentions(model: nn.Module) -> list[nn.Module]:
    """The modules that weigh tokens by attention: the innermost of those that transformers calls "Attention".

    `BertAttention`, for one, contains `BertSelfAttention`, and a dropout of hidden states.
    """
    return [m for m in model.modules() if _is_attention(m) and not any(map(_is_attention, m.children()))]


def _is_attention(module: nn.Module) -> bool:
    return type(module).__name__.endswith("Attention")


def _set_attention_dropout(module: nn.Module, share: float) -> bool:
    """Sets one module's dropout, which transformers' models hold as a module or as a number; says whether it has one."""
    name = "attention_dropout" if hasattr(module, "attention_dropout") else "dropout"
    dropout = getattr(module, name, None)
    if isinstance(dropout, nn.Dropout):
        dropout.p = share
    elif isinstance(dropout, float | int):
        setattr(module, name, share)
    else:
        return False
    return True
