"""Products of views with questions, how far they may be from scores, and the best of each passage."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multiview.data.arrays import rows_in

if TYPE_CHECKING:
    from torch import Tensor, dtype

ViewRange = tuple[int, int | None]
"""Views [first, stop) of each passage, counted from 0; all from `first` on where `stop` is None."""

ALL_VIEWS: ViewRange = (0, None)

MULTIPLIED_BYTES = 2 << 20
"""Size of the views in float32 that a CPU multiplies at once, in its cache."""

FEW_QUESTIONS = 16
"""Number of questions from which on a CPU multiplies views in layers, by oneDNN, on AMD's at twice the speed of MKL."""

LARGEST_PRODUCT = 2.0**14
"""Questions are scaled so that no product in float16 is larger."""


def product_type(device: str) -> dtype:
    """Returns the type of products on a device."""
    import torch

    return torch.float32 if device == "cpu" else torch.float16


class Asked(NamedTuple):
    """Questions of one pass, on the device that multiplies."""

    vectors: Tensor
    """[q, dim]: as they are multiplied, each times some factor."""
    bound: Tensor
    """[q, 1] float64: how far a product of one is from its score times that factor, at most."""
    queries: Tensor
    """[q, dim] float64."""

    @classmethod
    def of(cls, queries: np.ndarray, longest_view: float, device: str) -> Asked:
        """Returns the questions with the vectors `queries`, for views up to a norm.

        A sum in any order is off by γ |q| |v| with γ = n u / (1 - n u), where n counts the width and two more. In
        float32, u is 2^-24. Of float16 products are exact, and a GPU sums them in float32, but cuts off what it should
        round, so u is four times that; besides, vectors and sums are rounded to float16.
        """
        import torch

        half = product_type(device) == torch.float16
        exact = torch.from_numpy(queries.astype(np.float64)).to(device)
        vectors, norms, lost = torch.from_numpy(queries).to(device), _norms(exact), 0.0
        if half:
            wanted = min(1.0, LARGEST_PRODUCT / max(longest_view, 1.0))
            given = exact * torch.exp2(torch.floor(torch.log2(wanted / norms.clamp(min=1e-300))))
            vectors = given.half()
            norms, lost = _norms(vectors.double()), _norms(given - vectors.double())
        terms = (queries.shape[1] + 2) * 2.0 ** (-22 if half else -24)
        share, least = terms / (1 - terms) + (2.0**-11 if half else 0), 2.0 ** (-23 if half else -124)
        # `least` is more than is lost where a processor takes numbers below the least normal one for 0.
        bound = longest_view * (lost + share * norms) * (1 + 1e-6)
        return cls(vectors, bound + queries.shape[1] * least * (1 + longest_view), exact)


def _norms(vectors: Tensor) -> Tensor:
    import torch

    return torch.linalg.vector_norm(vectors, dim=1, keepdim=True)


def multiplier(vectors: Tensor, most: int) -> Callable[[Tensor], Tensor]:
    """Returns a function of at most `most` views [n, dim] float16 that returns their products with `vectors`, which are
    overwritten by the next: [q, n] for many on a CPU, otherwise [n, q].
    """
    import torch

    if vectors.dtype == torch.float16:
        products = vectors.new_empty(most, len(vectors))
        return lambda views: torch.mm(views.to(vectors.device), vectors.T, out=products[: len(views)])
    rows = max(1, min(most, MULTIPLIED_BYTES // (4 * vectors.shape[1])))
    block, products = vectors.new_zeros(rows, vectors.shape[1]), vectors.new_empty(len(vectors), most)
    layered, queries = in_layers(vectors), vectors.T
    if not layered:
        products = products.view(most, len(vectors))
    elif torch.backends.mkldnn.is_available():
        vectors = vectors.to_mkldnn()

    def multiply(views: Tensor) -> Tensor:
        count = len(views)
        for start in range(0, count, rows):
            part, size = slice(start, start + rows), min(rows, count - start)
            used = block[:size].copy_(views[part])
            if not layered:
                torch.mm(used, queries, out=products[part][:size])
            else:  # always of one size, since oneDNN compiles a kernel per size
                found = torch.nn.functional.linear(vectors, block)
                found = found.to_dense() if found.is_mkldnn else found
                products[:, start : start + size] = found[:, :size]
        return products[:, :count] if layered else products[:count]

    return multiply


def in_layers(vectors: Tensor) -> bool:
    """Whether views are multiplied with `vectors` in layers: on a CPU with many, whose products are not in its cache."""
    return vectors.is_cpu and vectors.itemsize == 4 and len(vectors) >= FEW_QUESTIONS


@dataclass(frozen=True)
class SearchedPassages:
    """Passages that are searched, each with at least one view."""

    rows: np.ndarray
    """[p] int64, rising."""
    counts: np.ndarray
    """[p] int64: number of views of each."""
    starts: np.ndarray
    """[p + 1] int64: position of each passage's first view among those of all of them, and the number of all."""
    each: int
    """Number of views of every one, if it is the same; otherwise 0."""
    on_device: tuple[Tensor, Tensor]
    """`rows` and `starts` on the device that multiplies."""

    @classmethod
    def of(cls, counts: np.ndarray, device: str) -> SearchedPassages:
        """Returns the passages with any views, of which there are `counts` [p]."""
        import torch

        rows = np.flatnonzero(counts)
        counts = counts[rows]
        starts = np.append(0, np.cumsum(counts))
        each = int(counts[0]) if len(rows) and (counts == counts[0]).all() else 0
        on_device = torch.from_numpy(rows).to(device), torch.from_numpy(starts).to(device)
        return cls(rows, counts, starts, each, on_device)


@dataclass(frozen=True)
class Block:
    """The products of all views of the passages [first, last) of some."""

    passages: SearchedPassages
    first: int
    last: int
    products: Tensor
    """[n, q] float32 on the device that multiplied: of the views of each passage, one after another."""

    def best(self, view_range: ViewRange) -> tuple[Tensor, Tensor]:
        """Returns the passages that have views in a range [p], and the highest product of these with each question [q, p]."""
        import torch

        (first, stop), products, searched = view_range, self.products, self.passages
        some, base = slice(self.first, self.last), searched.starts[self.first]
        passages, starts = (
            searched.on_device[0][some],
            searched.on_device[1][self.first : self.last + 1] - base,
        )
        if searched.each:
            grouped = products.view(len(passages), searched.each, -1)[:, first:stop]
            if not grouped.shape[1]:
                return passages[:0], products[:0].T
            return passages, grouped.amax(1).T.contiguous()
        if view_range != ALL_VIEWS:
            counts = np.clip(searched.counts[some], 0, stop) - first
            having = np.flatnonzero(counts > 0)
            rows = rows_in(searched.starts[some][having] - base + first, counts[having])
            chosen = (having, rows, np.append(0, np.cumsum(counts[having])))
            having, rows, starts = (torch.from_numpy(each).to(products.device) for each in chosen)
            passages, products = passages[having], products.index_select(0, rows)
        return passages, torch.segment_reduce(products, "max", offsets=starts, unsafe=True).T.contiguous()


@dataclass(frozen=True)
class Layers:
    """The products of all views of some passages, in layers: of all first views, then all second ones, and so on."""

    passages: np.ndarray
    """[p] int64, those with the most views first."""
    sizes: Sequence[int]
    """Number of passages in each layer."""
    products: Tensor
    """[q, n] float32."""

    def best(self, view_range: ViewRange) -> tuple[Tensor, Tensor]:
        """As that of `Block`."""
        import torch

        layers = self.products.split(list(self.sizes), dim=1)[slice(*view_range)]
        best = layers[0].clone() if layers else self.products[:, :0]
        for layer in layers[1:]:
            some = best[:, : layer.shape[1]]
            torch.maximum(some, layer, out=some)
        return torch.from_numpy(self.passages[: best.shape[1]]), best


@contextlib.contextmanager
def whole_sums() -> Iterator[None]:
    """Keeps TF32, bfloat16 and sums in float16 out of products, which would be outside of their bound."""
    import torch

    cublas = torch.backends.cuda.matmul
    chosen = torch.get_float32_matmul_precision(), cublas.allow_fp16_reduced_precision_reduction
    torch.set_float32_matmul_precision("highest")
    cublas.allow_fp16_reduced_precision_reduction = False
    try:
        with torch.inference_mode():
            yield
    finally:
        torch.set_float32_matmul_precision(chosen[0])
        cublas.allow_fp16_reduced_precision_reduction = chosen[1]
