"""Bytes of the files of an index, by its kind (docs/index.md): formulas over passages, views and width."""

from __future__ import annotations

from collections.abc import Callable

from multiview.index.approximate import EXACT
from multiview.index.approximate.kinds import FACTORY, default_lists

KINDS = (EXACT, *FACTORY)
"""The kinds of index that have a name."""

VIEW_BYTES = 2
"""float16."""
ROW_BYTES = 52
"""Bytes per row of `passages.parquet` and `rows.parquet`: a hash of 32 hex digits, and what remains of an id, the row
of the first view and the number of views."""
ID_BYTES = 8
"""Bytes per view for its number in an inverted list."""
RABITQ_FACTORS = 8
"""Bytes per view for two float32 numbers beside its bits."""
LINKS_BYTES = 2 * 32 * 4 + 32 * 4 / 31 + 8 + 4
"""Bytes per view in a graph of HNSW32: 64 links on the lowest level, 32 on each of 1 / 31 further levels on average;
where its links begin, and its level."""


def view_bytes(views: float, dim: int) -> float:
    """Bytes of `views.f16`: two per number."""
    return VIEW_BYTES * views * dim


def index_bytes(kind: str, passages: float, views: float, dim: int) -> float:
    """Bytes of all files of an index: its views, its table of passages, and what its kind has besides.

    Any other kind than those of `KINDS` is a faiss factory string.
    """
    return view_bytes(views, dim) + ROW_BYTES * passages + faiss_bytes(kind, views, dim)


def faiss_bytes(kind: str, views: float, dim: int) -> float:
    """Bytes of `index.faiss`: 0 of an exact index, which has none, and 4 per number of a faiss factory string."""
    return FAISS_BYTES[kind](views, dim) if kind in FAISS_BYTES else 4.0 * views * dim


def _list_bytes(views: float, dim: int) -> float:
    """Bytes of the lists' centroids in float32, and of each list's length."""
    return default_lists(round(views)) * (4.0 * dim + 8)


def _compact(views: float, dim: int) -> float:
    """`IVF{lists},SQ8`: a byte per number and an id per view; the centroids."""
    return views * (dim + ID_BYTES) + _list_bytes(views, dim)


def _tiny(views: float, dim: int) -> float:
    """`RR{dim},IVF{lists},RaBitQ`: a bit per number, two factors and an id per view; the centroids, and the rotation."""
    return views * (dim / 8 + RABITQ_FACTORS + ID_BYTES) + _list_bytes(views, dim) + 4.0 * dim**2


def _hnsw(views: float, dim: int) -> float:
    """`HNSW32,SQ8`: a byte per number and the links per view."""
    return views * (dim + LINKS_BYTES)


FAISS_BYTES: dict[str, Callable[[float, int], float]] = {
    EXACT: lambda views, dim: 0.0,
    "compact": _compact,
    "tiny": _tiny,
    "hnsw": _hnsw,
}
"""Bytes of `index.faiss` by kind."""
