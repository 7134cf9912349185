"""Settings of encoding and of the index."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from multiview.config.section import HOW, Section, Seed, Workers


class Encode(Section):
    """Encoding of passages and questions. *Ours.*"""

    compute: Literal["float32", "autocast", "bfloat16", "float16"] = "float32"
    """Arithmetic: float32 weights, bfloat16 autocast, bfloat16 weights, or float16 weights (on a GPU). Quality: docs/encoding.md."""
    batch_tokens: Annotated[int, Field(ge=64)] = 4096
    """Tokens per padded batch: on a GPU, and of bases that cannot read sequences laid end to end (docs/encoding.md). It decides the fixed number of rows (8 or more) per length bucket, so it is part of the key."""
    bucket: Annotated[int, Field(ge=8)] = 32
    """In padded batches sequences are padded to multiples of this many tokens."""
    question_length: Annotated[int, Field(ge=8)] | None = None
    """Longest question in tokens; none: the length of the model's training (Dual Cross Encoder: 16, and 32 for evaluation)."""
    index_padding_views: bool = False
    """Also index the views of empty snippets, as the papers do."""
    device: Annotated[str, HOW] = "auto"
    """cpu, cuda, or auto; also where `mine` and `evaluate` search an exact index."""
    workers: Workers = None
    """Processes that tokenise passages ahead of the model; none: up to four per GPU, as far as there are cores, and 0 on a CPU, where the model has the cores."""


class Index(Section):
    """The index over views, and the search of an approximate index (docs/index.md). *Ours.*"""

    kind: str = "exact"
    """exact, compact, tiny, hnsw, or a faiss factory string, whose {lists} and {dim} are filled in."""
    lists: Annotated[int, Field(ge=1)] | None = None
    """Number of inverted lists; none: 4 √views, with at least 39 training views per list (faiss' guidelines)."""
    sample: Annotated[int, Field(ge=1)] | None = None
    """Random views that the index is trained on; none: 64 per list, and at least 65,536."""
    seed: Seed = 0
    """Seed of the sample, of k-means, and of the random views of `measured`."""
    probes: Annotated[int, Field(ge=1)] | None = None
    """Inverted lists that a search visits; none: √lists, and at least 8."""
    ef_search: Annotated[int, Field(ge=1)] = 128
    """Size of the candidate list of an hnsw search, in views; at least the number of views that it fetches."""
    rerank: Annotated[int, Field(ge=0)] = 100
    """Number of passages beyond k for which an approximate search scores all views exactly."""
    on_disk: bool = False
    """Search an approximate index memory-mapped on disk, as its views always are."""
    one_thread: bool = True
    """Build hnsw with one thread; several threads build a different graph every time."""
    measured: Annotated[int, Field(ge=0)] = 200
    """Random views that are searched for like questions to measure recall and speed; also the number of questions that `evaluate` measures them with."""
    device: Annotated[str, HOW] = "auto"
    """cpu, cuda, or auto: where faiss-gpu sees a GPU, inverted lists are trained and filled there."""
