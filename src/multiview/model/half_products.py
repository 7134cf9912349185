"""Products of bfloat16 on processors without instructions for them, such as x86 before AVX-512.

torch multiplies bfloat16 number by number there, at an eighth of the speed of float32.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from multiview.model.onednn import multiplies

_aten = torch.ops.aten
_attention = _aten._scaled_dot_product_flash_attention_for_cpu
PRODUCTS = {
    _aten.mm.default,
    _aten.addmm.default,
    _aten.bmm.default,
    _aten.baddbmm.default,
    _attention.default,
    _aten._scaled_dot_product_flash_attention_for_cpu_backward.default,
    # In inference mode these come as they are called.
    _aten.linear.default,
    _aten.matmul.default,
    _aten.scaled_dot_product_attention.default,
}


def half_products(device: torch.device, half: bool) -> contextlib.AbstractContextManager[object]:
    """Returns a context in which products of bfloat16 take no longer than those of float32 on any CPU.

    Where a processor lacks the instructions they are computed in float32 and rounded to bfloat16, so only last bits
    differ. `half` says whether there are such products.
    """
    if not half or device.type != "cpu" or multiplies(torch.bfloat16):
        return contextlib.nullcontext()
    return _InFloat32()


class _InFloat32(TorchDispatchMode):
    """Multiplies in float32 what is bfloat16, forwards and backwards, and rounds the result to bfloat16."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func not in PRODUCTS or not any(_is_half(each) for each in args):
            return func(*args, **kwargs)
        widened = {name: each.float() if _is_half(each) else each for name, each in kwargs.items()}
        product = func(*(each.float() if _is_half(each) else each for each in args), **widened)
        if func is _attention.default:  # and the logarithms of the softmax's sums
            return product[0].bfloat16(), *product[1:]
        return product.bfloat16() if isinstance(product, Tensor) else tuple(p.bfloat16() for p in product)


def _is_half(value: object) -> bool:
    return isinstance(value, Tensor) and value.dtype == torch.bfloat16
