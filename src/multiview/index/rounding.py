"""How far products of views with questions may be from scores, which are products in float64."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

SUMMED = 2.0**-24
"""u: the share by which a sum or a product in float32 is rounded, to the nearest."""

HALVED = 2.0**-8
"""The share by which a number of float32 is rounded to bfloat16, whose significand has 8 bits."""

STORED = 2.0**-11
"""The share by which a number of float32 is rounded to float16, whose significand has 11 bits."""

LEAST_STORED = 2.0**-14
"""The smallest normal number of float16."""

UNDERFLOW = 2.0**-124
"""Four times the least normal number of float32: more than a product and a sum lose where smaller numbers count as 0."""


LONGEST = "longest_view"
LOST = "lost_in_bfloat16"
"""Fields of an index's header, of `ViewNorms`."""


class ViewNorms(NamedTuple):
    """The Euclidean norms on which the rounding of products depends, the largest of some views; 0 without views."""

    longest: float = 0.0
    """|v| of a view."""
    lost: float = 0.0
    """|v - v'| of a view and the same view rounded to bfloat16; at most 2^-8 |v|, and about half of that."""

    def merged(self, other: ViewNorms) -> ViewNorms:
        """Returns the norms of the views of both."""
        return ViewNorms(max(self.longest, other.longest), max(self.lost, other.lost))

    @classmethod
    def from_header(cls, header: Mapping[str, Any]) -> ViewNorms:
        """Reads the fields that `fields` wrote; an index of an earlier version has only the first."""
        return cls(header[LONGEST], header.get(LOST, HALVED * header[LONGEST]))

    def fields(self) -> dict[str, float]:
        """Returns the norms as fields of an index's header."""
        return {LONGEST: self.longest, LOST: self.lost}


@dataclass(frozen=True)
class Rounding:
    """The difference between the products of views with questions and their scores: |p - q·v| ≤ a + r |p|."""

    absolute: np.ndarray
    """a [q] float64. It has room for the rounding of `least` and `lowest`, too, 2^-22 of the longest view times the question."""
    relative: float = 0.0
    """r, at most 2^-7."""

    def least(self, products: np.ndarray, questions: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Returns the least score of a view with each product, s - r |s| - a.

        `products` [n] float32 of `questions` [n], by default of each question; the result is of the same shape.
        """
        return self._below(products, questions, 1)

    def lowest(self, scores: np.ndarray, questions: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Returns the product below which no view has such a score, t - r' |t| - a' with r' = r (1 + 4 r), a' = a (1 + 4 r).

        The score of a lower product is at most b + r |b| + a for this product b, and with |b| ≤ (1 + r') |t| + a' and
        r' (1 - r) ≥ r, a' (1 - r) ≥ a this is at most t.
        """
        return self._below(scores, questions, 1 + 4 * self.relative)

    def bar(self, products: np.ndarray, questions: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Returns the product that other views must reach for a score as high as that of a view with this product."""
        return self.lowest(self.least(products, questions), questions)

    def _below(self, values: np.ndarray, questions: np.ndarray | slice, factor: float) -> np.ndarray:
        below = values - (factor * self.absolute).astype(np.float32)[questions]
        return below - np.float32(factor * self.relative) * np.abs(values) if self.relative else below


def gamma(roundings: int) -> float:
    """Returns γ = n u / (1 - n u), by which a sum is rounded in n roundings."""
    return roundings * SUMMED / (1 - roundings * SUMMED)


def norms(vectors: np.ndarray) -> np.ndarray:
    """Returns the Euclidean norms of `vectors` [n, dim], not below the real ones [n] float64."""
    return np.linalg.norm(vectors.astype(np.float64), axis=1) * (1 + 1e-6)
