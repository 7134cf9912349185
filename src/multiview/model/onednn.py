"""Linear layers by oneDNN in inference, with weights in its own order.

torch multiplies float32 by MKL, at half of oneDNN's speed on some processors, and bfloat16 by oneDNN with weights that
it orders anew each time.
"""

from __future__ import annotations

import torch
from torch import Tensor

ROWS = 1024
"""Rows of inputs that weights are ordered for, whatever the rows that come: a product's bits depend on the order."""
NAMES = ("_linear_pointwise", "_reorder_linear_weight", "_is_mkldnn_bf16_supported")
"""What torch calls these operations of oneDNN; they have no public names."""


def multiplies(dtype: torch.dtype) -> bool:
    """Returns whether oneDNN multiplies numbers of `dtype` with this torch and on this machine."""
    if not torch.backends.mkldnn.is_available() or not all(hasattr(torch.ops.mkldnn, name) for name in NAMES):
        return False
    half = dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return half or dtype == torch.float32


class OrderedLinear:
    """A linear layer x Wᵀ + b."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), ROWS)
        self._bias = bias.detach()

    def __call__(self, states: Tensor) -> Tensor:
        """Returns the layer's output […, N] for `states` […, K]."""
        return torch.ops.mkldnn._linear_pointwise(states, self._weight, self._bias, "none", [], "")

    def with_gelu(self, states: Tensor) -> Tensor:
        """Returns GELU of the layer's output, from the same kernel."""
        return torch.ops.mkldnn._linear_pointwise(states, self._weight, self._bias, "gelu", [], "none")
