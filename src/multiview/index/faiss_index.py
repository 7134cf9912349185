"""The part of a faiss index that is used here, with the signatures that faiss's Python wrappers have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from multiview.index.faiss_library import faiss

FaissObject: TypeAlias = Any
"""An index or a part of one by the attributes of its C++ class: faiss's stubs lack some and give others the wrong type."""


class ViewSearcher(Protocol):
    """An index that is searched for views."""

    ntotal: int
    """Number of views."""

    def search(self, x: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Scores and rows [q, k] of the best views for `x` [q, dim], best first; a row is -1 where there are too few."""
        ...


class FaissIndex(ViewSearcher, Protocol):
    """A faiss index over views for inner products. faiss's classes have these methods too, but are not typed so."""

    d: int
    """Width of a view."""
    is_trained: bool

    def search(
        self, x: np.ndarray, k: int, *, params: faiss.SearchParameters | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Searches as in `ViewSearcher`; `params` are faiss's parameters for this search only."""
        ...

    def train(self, x: np.ndarray) -> None:
        """Trains the quantizers on `x` [n, d] float32."""
        ...

    def add(self, x: np.ndarray) -> None:
        """Adds views [n, d] float32, which get the next rows."""
        ...

    def sa_encode(self, x: np.ndarray) -> np.ndarray:
        """The codes of views [n, d] float32, as the index would store them."""
        ...

    def sa_decode(self, codes: np.ndarray) -> np.ndarray:
        """The views of some codes [n, d] float32."""
        ...

    def check_compatible_for_merge(self, other_index: FaissIndex) -> None:
        """Raises RuntimeError where another index cannot be merged into this one."""
        ...
