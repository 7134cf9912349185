"""Approximate indexes: faiss finds candidates without reading every view, and their stored views are scored exactly."""

from dataclasses import dataclass
from typing import Any, TypeAlias

EXACT = "exact"
"""The kind of an index that reads every view, and needs no faiss."""

FACTORY = {
    "compact": "IVF{lists},SQ8",
    "tiny": "RR{dim},IVF{lists},RaBitQ",
    "hnsw": "HNSW32,SQ8",
}
"""faiss factory string of each kind. RaBitQ needs a random rotation (RR) before it."""

FaissObject: TypeAlias = Any
"""A faiss index or a part of one; Any, because faiss's stubs lack some attributes and give others the wrong type."""


@dataclass(frozen=True)
class SearchParameters:
    """The effort of a search; all three parameters may be changed without building the index again."""

    probes: int | None
    """Number of inverted lists that are probed; none where the index has no lists."""
    ef_search: int
    """Number of views that a graph search keeps as candidates; at least the number of views that it fetches."""
    rerank: int
    """Number of passages beyond k that are scored with all of their views."""
