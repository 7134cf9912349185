"""Settings of encoding and of the index."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from multiview.config.section import UNKEYED, Section, Seed


class Encode(Section):
    """Encoding of passages and questions. *Ours.*"""

    compute: Literal["float32", "autocast", "bfloat16", "float16"] = "float32"
    """Arithmetic: float32 weights, bfloat16 autocast, bfloat16 weights, or float16 weights (on a GPU). Quality: docs/encoding.md."""
    batch_tokens: Annotated[int, Field(ge=64)] = 4096
    """Most tokens of a batch, on a CPU 512 at most (docs/encoding.md). It decides the fixed number of rows per length, so it is part of the key."""
    question_length: Annotated[int, Field(ge=8)] | None = None
    """Longest question in tokens; none: the length of the model's training (Dual Cross Encoder: 16, and 32 for evaluation)."""
    index_padding_views: bool = False
    """Also index the views of empty snippets, as the papers do."""
    device: Annotated[str, UNKEYED] = "auto"
    """cpu, cuda, or auto; also where `mine` and `evaluate` search an exact index."""


class Index(Section):
    """The index over views, and the search of an approximate index (docs/index-kinds.md). *Ours.*"""

    kind: str = "exact"
    """exact, compact, tiny, hnsw, or a faiss factory string, whose {lists} and {dim} are filled in."""
    seed: Seed = 0
    """Seed of the views that train the index, of k-means, and of the views that measure it."""
    rerank: Annotated[int, Field(ge=0)] = 100
    """Number of passages beyond k for which an approximate search scores all views exactly."""
    device: Annotated[str, UNKEYED] = "auto"
    """cpu, cuda, or auto: where faiss-gpu sees a GPU, inverted lists are trained there."""
