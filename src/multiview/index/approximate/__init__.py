"""Approximate indexes: faiss finds candidates without reading every view, and their stored views are scored exactly."""

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
