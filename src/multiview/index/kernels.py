"""Products of views with questions, by the kernel that is fastest for them.

On the CPU oneDNN multiplies, at twice the speed of OpenBLAS and MKL on some processors, or NumPy for few questions.
Some processors multiply in bfloat16 at two to ten times the speed of float32. With one question, reading the views takes
longest, so they are multiplied in float16, as they are stored.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Protocol

import numpy as np

from multiview.index.rounding import (
    HALVED,
    LEAST_STORED,
    STORED,
    UNDERFLOW,
    Rounding,
    ViewNorms,
    gamma,
    norms,
)

if TYPE_CHECKING:
    from torch import Tensor, device

ONEDNN_QUESTIONS = 8
"""Number of questions from which on oneDNN multiplies instead of NumPy. Only speed depends on it."""

LANES = 32
"""Products in float16 are for widths that are a multiple of this alone: torch multiplies what is left over number by
number, and rounds each product to float16, for which the bound has no room."""

BLOCK_BYTES = 4 << 20
"""Size of the block of views in float32 that is multiplied at once. Only speed depends on it."""

STREAMED_BYTES = 64 << 20
"""`BLOCK_BYTES`, counted in float32 too, where the views are multiplied as they are stored, without a copy."""

FEW_BYTES = 1 << 20
"""`BLOCK_BYTES` where NumPy multiplies, whose products take less time than reading the block; it stays in a core's cache."""

GPU_BLOCK_BYTES = 64 << 20
"""`BLOCK_BYTES` on a GPU."""

MEASURED_VIEWS = 600
"""Number of views by which `_float16_is_faster` decides: about a block of `FEW_BYTES`."""

TILE = 32
"""Number of questions to whose multiples products in bfloat16 are filled up, a fifth faster. Only speed depends on it."""


class Kernel(Protocol):
    """The product of views with some questions."""

    @property
    def rounding(self) -> Rounding:
        """How far products may be from scores."""
        ...

    @property
    def block_bytes(self) -> int:
        """Size of the block of views in float32 that is multiplied at once, at most."""
        ...

    def multiplier(self, rows: int) -> Callable[[Tensor], Tensor]:
        """Returns a function of at most so many views [n, dim] float16, whose products it returns [n, q or more], in float32
        or bfloat16. Columns beyond the questions mean nothing.

        All products are of one size, since oneDNN compiles a kernel per size.
        """
        ...


def kernels(queries: np.ndarray, views: ViewNorms, device: device) -> list[Kernel]:
    """Returns the kernels for `queries` [q, dim] float32, the fastest first and the one that rounds least last.

    `views` are the norms of the views that they multiply.
    """
    if device.type != "cpu":
        return [Float32(queries, views.longest, device)]
    if len(queries) == 1 and not queries.shape[1] % LANES and multiplies_float16():
        return [Float16(queries, views.longest), Float32(queries, views.longest, device)]
    onednn = onednn_product() if len(queries) >= ONEDNN_QUESTIONS else None
    single = Float32(queries, views.longest, device, onednn)
    if onednn is None or not multiplies_bfloat16():
        return [single]
    half = BFloat16(queries, views, onednn)
    return [half, single] if half.finite else [single]


class Float32:
    """Products in float32.

    Summed in any order, |p - q·v| ≤ γ |q| |v| with γ = dim u / (1 - dim u) and u = 2^-24.
    """

    def __init__(
        self, queries: np.ndarray, longest: float, device: device, onednn: Callable[..., Tensor] | None = None
    ) -> None:
        """`onednn` multiplies (see `onednn_product`); without it NumPy, or torch on a GPU."""
        import torch

        self._queries = torch.from_numpy(queries).to(device)
        self._onednn = onednn
        if device.type == "cpu":
            self.block_bytes = FEW_BYTES if onednn is None else BLOCK_BYTES
        else:
            self.block_bytes = GPU_BLOCK_BYTES
        rounding = (gamma(queries.shape[1]) + 2.0**-22) * longest * norms(queries)
        self.rounding = Rounding(rounding + queries.shape[1] * UNDERFLOW * (1 + longest))

    def multiplier(self, rows: int) -> Callable[[Tensor], Tensor]:
        """See `Kernel`."""
        block = self._queries.new_zeros(rows, self._queries.shape[1])

        def multiply(views: Tensor) -> Tensor:
            block[: len(views)] = views
            return self._product(block)[: len(views)]

        return multiply

    def _product(self, views: Tensor) -> Tensor:
        import torch

        if self._queries.device.type != "cpu":
            with whole_float32():
                return views @ self._queries.T
        if self._onednn is None:
            return torch.from_numpy(views.numpy() @ self._queries.numpy().T)
        with whole_float32():
            return self._onednn(views, self._queries, None, "none", [], "")


class BFloat16:
    """Products in bfloat16, which sum in float32 and are rounded to bfloat16.

    With q' and v' for the rounded vectors, q·v - q'·v' = q·(v - v') + (q - q')·v', of which |v - v'| is a norm
    of the views (see `ViewNorms`), and |q - q'| is measured. The sum q'·v' is rounded by γ |q'| |v'| at most,
    where γ is that of 4 dim roundings: those of dim products and sums, in any order, twice for processors that do not
    round to the nearest. It is rounded to bfloat16, by 2^-8 |p|. Numbers below the least normal one may count as 0
    everywhere.
    """

    def __init__(self, queries: np.ndarray, views: ViewNorms, onednn: Callable[..., Tensor]) -> None:
        import torch

        self._onednn = onednn
        self._dim = queries.shape[1]
        self.block_bytes = BLOCK_BYTES
        self._queries = torch.zeros(-(-len(queries) // TILE) * TILE, self._dim, dtype=torch.bfloat16)
        self._queries[: len(queries)] = torch.from_numpy(queries)
        rounded = self._queries[: len(queries)].double().numpy()
        reached = (1 + HALVED) * views.longest
        with np.errstate(invalid="ignore"):
            lost, lengths = norms(rounded - queries), norms(rounded)
            own = reached * (lost + gamma(4 * self._dim) * lengths)
            self.finite = bool((reached * lengths < 2.0**126).all())
            """Whether no product is too large for bfloat16."""
        rounding = own + (views.lost * (1 + 1e-6) + 2.0**-22 * views.longest) * norms(queries)
        self.rounding = Rounding(rounding + self._dim * UNDERFLOW * (1 + views.longest), HALVED)

    def multiplier(self, rows: int) -> Callable[[Tensor], Tensor]:
        """See `Kernel`."""
        import torch

        single, block = torch.zeros(rows, self._dim), self._queries.new_zeros(rows, self._dim)

        def multiply(views: Tensor) -> Tensor:
            # By way of float32, since torch has no vector instructions from float16 to bfloat16.
            block[: len(views)] = single[: len(views)].copy_(views)
            return self._onednn(block, self._queries, None, "none", [], "")[: len(views)]

        return multiply


class Float16:
    """Products with one question in float16, which sum in float32 and are rounded to float16.

    The question is multiplied by a power of two, s, so that products are far from the least and the largest numbers of
    float16. With q' for s q in float16, divided by s, and v for a view, q·v - q'·v = (q - q')·v, of which |q - q'| is
    measured. The sum q'·v is rounded by γ |q'| |v| (see `BFloat16`), and its rounding to float16 by 2^-11 |p|. Numbers of
    s q' and s p below the smallest normal one, 2^-14, may count as 0. Those of views do not: processors convert them from
    float16 as they are, whatever they do with such numbers of float32.
    """

    def __init__(self, queries: np.ndarray, longest: float) -> None:
        import torch

        dim = queries.shape[1]
        self.block_bytes = STREAMED_BYTES
        (norm,) = norms(queries)
        # Products are up to 2^14; s and 1 / s are normal numbers of float32.
        self._scale = 2.0 ** min(126, max(-126, 13 - math.frexp(norm * max(1.0, longest))[1]))
        self._query = torch.from_numpy(queries[0].astype(np.float64) * self._scale).half()
        rounded = (self._query.double() / self._scale).numpy()[None]
        lost, reached = norms(rounded - queries), norms(rounded)
        least = LEAST_STORED / self._scale * (math.sqrt(dim) * longest + 1)
        rounding = longest * (lost + gamma(4 * dim) * reached + 2.0**-22 * norm) + least
        self.rounding = Rounding(rounding + dim * UNDERFLOW * (1 + longest), STORED)

    def multiplier(self, rows: int) -> Callable[[Tensor], Tensor]:
        """See `Kernel`."""

        def multiply(views: Tensor) -> Tensor:
            return views.mv(self._query)[:, None].float() * (1 / self._scale)

        return multiply


def multiplies_bfloat16() -> bool:
    """Whether this processor has instructions for products in bfloat16: AVX512-BF16 or AMX."""
    import torch

    able = torch.cpu.get_capabilities()
    return bool(able.get("avx512_bf16") or able.get("amx_bf16"))


def multiplies_float16() -> bool:
    """Whether torch multiplies views by a question in float16 with sums of float32, and faster than NumPy in float32.

    Sums of float32 are torch's choice unless somebody allowed it others.
    """
    import torch

    sums_in_float16 = getattr(torch._C, "_get_cpu_allow_fp16_reduced_precision_reduction", lambda: True)
    return not sums_in_float16() and _float16_is_faster()


@cache
def _float16_is_faster() -> bool:
    """Measures it once, in some two milliseconds: it depends on the processor, and on what torch does with float16 there."""
    import torch

    queries, views = np.ones((1, 12 * LANES), np.float32), torch.ones(MEASURED_VIEWS, 12 * LANES).half()
    as_stored, converted = Float16(queries, 1.0), Float32(queries, 1.0, torch.device("cpu"))
    return _seconds(as_stored, views) < _seconds(converted, views)


def _seconds(kernel: Kernel, views: Tensor) -> float:
    """The least time of a product of some, after one that is not counted."""
    multiply = kernel.multiplier(len(views))
    multiply(views)
    times = []
    for _ in range(3):
        begun = time.perf_counter()
        multiply(views)
        times.append(time.perf_counter() - begun)
    return min(times)


def onednn_product() -> Callable[..., Tensor] | None:
    """torch's product by oneDNN, which has no public name; None in a torch without it."""
    import torch

    if not torch.backends.mkldnn.is_available():
        return None
    return getattr(torch.ops.mkldnn, "_linear_pointwise", None)


@contextlib.contextmanager
def whole_float32() -> Iterator[None]:
    """Keeps TF32 and bfloat16 out of products of float32, whose rounding would be outside of its bound."""
    import torch

    chosen = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(chosen)
