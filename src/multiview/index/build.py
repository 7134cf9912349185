"""Building and writing an index: from the embeddings of all shards, or from any other stored views in order."""

# pyarrow.compute fills itself with functions when imported, which pyright cannot see.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from multiview import metric_names
from multiview.artifacts.record import load_record
from multiview.artifacts.staging import Staged
from multiview.config import Encode, Index, JsonObject
from multiview.data.passages import ROW_GROUP
from multiview.data.shards import Rows
from multiview.encoding.embeddings import QUERIES_FIELD, ROWS_SCHEMA, VIEW_DTYPE, VIEWS_FILE, Embeddings
from multiview.errors import InputError
from multiview.index.approximate import EXACT, FaissObject
from multiview.index.approximate.measuring import measure
from multiview.index.stored_views import ViewBlocks, ViewNorms, view_norms
from multiview.index.view_index import (
    HEADER_FILE,
    INDEX_FILE,
    PASSAGES_FILE,
    QUERIES_FILE,
    ViewIndex,
)
from multiview.steps.context import StepContext
from multiview.steps.events import Events

HASHED_AT_ONCE = 1 << 16

MEASURED = 200
"""Random views that are searched for like questions, to measure recall and speed."""

BLOCK_BYTES = 64 << 20
"""Size of the views that share a digest, and are read together from a bucket. A change of it is a new version of the
steps that build indexes."""

ApproximateBuilder = Callable[
    [Sequence[ViewBlocks], Index, Callable[[np.ndarray], object], Events], tuple[FaissObject, JsonObject]
]
"""Makes an approximate faiss index of views, as `approximate.building.build` does."""


@dataclass(frozen=True)
class IndexContent:
    """The content from which an index is built."""

    model: str
    """Digest of the model that made the views."""
    passages: pa.Table
    """One row of `ROWS_SCHEMA` per passage, in order."""
    views: Sequence[ViewBlocks]
    """The views of the passages, in order, in one or several sources."""
    queries: Iterable[pa.Table] | None = None
    """The queries that the passages were read with, as tables of `QUERIES_FIELD`; none for most architectures."""


def build_index(context: StepContext) -> None:
    """Step: build one inner-product index over the views of all shards, of the kind that `settings.index` names.

    `inputs["embeddings"]` are the shards' embeddings, in shard order, made by the recorded input `model`. See
    `write_index` for the files. Raises InputError when shards come from another model or were encoded otherwise than
    `settings.encode` says, differ in width, share a passage, a block of views is damaged, or the kind does not suit
    them.
    """
    model = context.recorded_input("model").digest
    shards = open_embeddings(context.list_input("embeddings"), model, context.settings.encode)
    queries = query_tables(shards) if all(shard.has_queries for shard in shards) else None
    content = IndexContent(model, passage_table(shards), shards, queries)
    write_index(context.output("index"), content, context.settings.index, _build, context.events)


def write_index(
    folder: Path,
    content: IndexContent,
    settings: Index,
    build_approximate: ApproximateBuilder,
    events: Events,
) -> None:
    """Writes an index into `folder`; `build_approximate` makes the faiss index where `settings` is not exact.

    Writes `views.f16` (all views in float16), `passages.parquet` (`ROWS_SCHEMA`), `index.json`, for an approximate
    index `index.faiss`, and where passages were read with queries `queries.parquet` (one row per passage). Reports the
    cost of the index, and measures it by searching for random views (see `measure`). Raises InputError where there are
    no passages, or a passage occurs twice.
    """
    begun = time.perf_counter()
    passages = content.passages
    _check_passages(passages)
    header = {
        "kind": settings.kind,
        "model": content.model,
        "corpus": _corpus_digest(passages),
        "dim": content.views[0].dim,
        "passages": passages.num_rows,
        "views": sum(source.rows for source in content.views),
    }
    with StoredViewsWriter(folder / VIEWS_FILE, header["dim"]) as stored:
        if settings.kind == EXACT:
            faiss_index = None
            for block in (block for source in content.views for block in source.read_blocks()):
                stored.write(block)
                events.progress(stored.rows, header["views"], "views")
        else:
            from multiview.index.faiss_library import faiss

            faiss_index, about = build_approximate(content.views, settings, stored.write, events)
            header |= about
            faiss.write_index(faiss_index, str(folder / INDEX_FILE))
    header |= {
        **stored.norms.fields(),
        "rows_per_block": stored.rows_per_block,
        "block_sha256": stored.block_sha256,
    }
    pq.write_table(passages, folder / PASSAGES_FILE)
    if content.queries is not None:
        _write_queries(content.queries, passages.num_rows, folder / QUERIES_FILE)
    index = ViewIndex.from_parts(folder, faiss_index, passages, header)
    events.fact("build_seconds", round(time.perf_counter() - begun, 3))
    measured = measure(index, MEASURED, settings.seed, events)
    if not index.exact:
        header["measured"] = measured
    (folder / HEADER_FILE).write_text(json.dumps(header, indent=1, sort_keys=True) + "\n")
    _report(header, (folder / (VIEWS_FILE if index.exact else INDEX_FILE)).stat().st_size, events)


def _build(
    shards: Sequence[ViewBlocks], settings: Index, keep: Callable[[np.ndarray], object], events: Events
) -> tuple[FaissObject, JsonObject]:
    """See `approximate.building.build`, which an exact index needs as little as it needs faiss."""
    from multiview.index.approximate.building import build

    return build(shards, settings, keep, events)


def _report(header: JsonObject, index_bytes: int, events: Events) -> None:
    for name in ("passages", "views", "dim"):
        events.fact(name, header[name])
    for name in (metric_names.DRIFT_ADDED, metric_names.DRIFT_ERROR):
        if header.get(name) is not None:
            events.metric(name, header[name])
            events.fact(name, header[name])
    events.metric("views_per_passage", header["views"] / header["passages"])
    events.metric("bytes_per_passage", index_bytes / header["passages"])


def open_embeddings(staged: Sequence[Staged], model: str, encode: Encode) -> list[Embeddings]:
    """Opens the embeddings of all shards.

    Raises InputError unless all shards were encoded by the model with digest `model`, with the settings `encode` as far
    as they change views, and have the same width.
    """
    if not staged:
        raise InputError("index: no embeddings given; encode at least one shard")
    shards = [Embeddings(artifact.path) for artifact in staged]
    for artifact, shard in zip(staged, shards, strict=True):
        if shard.model != model:
            raise InputError(
                f"{shard.folder}: views of model {shard.model[:12]}, but the index is to be of model {model[:12]}; "
                "encode all shards with that model"
            )
        if shard.dim != shards[0].dim:
            raise InputError(
                f"{shard.folder}: {shard.dim} wide, but {shards[0].folder} is {shards[0].dim} wide; encode all "
                "shards with one model"
            )
        expected = encode.key_settings()
        record = load_record(artifact.address)[1] if artifact.address else None
        encoded = record.config.get("encode", {}) if record else expected
        if encoded != expected:
            raise InputError(
                f"{artifact.address}: encoded with {encoded or 'the defaults'} of encode, but the index is to say "
                f"{expected or 'the defaults'}; give both steps the same settings"
            )
    return shards


def passage_table(shards: Sequence[Embeddings]) -> pa.Table:
    """The passages of all shards in the columns of `ROWS_SCHEMA`; offsets continue from shard to shard."""
    columns = ["id", "content_hash", "views"]
    return with_offsets(pa.concat_tables([shard.table.select(columns) for shard in shards]))


def with_offsets(table: pa.Table) -> pa.Table:
    """A table of `id, content_hash, views` with the row of each passage's first view, in the columns of `ROWS_SCHEMA`."""
    views = table["views"].to_numpy().astype(np.int64)
    offsets = pa.array(np.cumsum(views) - views)
    return table.add_column(2, "offset", offsets).cast(ROWS_SCHEMA).combine_chunks()


def query_tables(shards: Sequence[Embeddings]) -> Iterator[pa.Table]:
    """The queries of each shard's passages, in `QUERIES_FIELD`."""
    schema = pa.schema([QUERIES_FIELD])
    return (shard.table.select(schema.names).cast(schema) for shard in shards)


class StoredViewsWriter:
    """Writes views block by block, as they are stored beside every index; a context manager."""

    def __init__(self, file: Path, dim: int) -> None:
        self.rows = 0
        self.norms = ViewNorms()
        self.rows_per_block = max(1, BLOCK_BYTES // (dim * VIEW_DTYPE.itemsize))
        """Number of successive views that share a digest."""
        self.block_sha256: list[str] = []
        """Digest of each block of views, the last of which may be shorter; complete when the file is closed."""
        self._block = hashlib.sha256()
        self._file = file.open("wb")

    def write(self, block: np.ndarray) -> None:
        """Appends views [n, dim] float16."""
        self._file.write(block.data)
        self.norms = self.norms.merged(view_norms(block))
        left = self.rows_per_block - self.rows % self.rows_per_block
        for part in np.split(block, range(left, len(block), self.rows_per_block)):
            self._block.update(part.data)
            self.rows += len(part)
            if len(part) and self.rows % self.rows_per_block == 0:
                self._end_block()

    def __enter__(self) -> StoredViewsWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        if self.rows % self.rows_per_block:
            self._end_block()

    def _end_block(self) -> None:
        self.block_sha256.append(self._block.hexdigest())
        self._block = hashlib.sha256()


def _check_passages(passages: pa.Table) -> None:
    if not passages.num_rows:
        raise InputError("index: the embeddings hold no passages; check the corpus that was encoded")
    ids = passages["id"]
    if len(ids.unique()) != len(ids):
        twice = next(count["values"].as_py() for count in ids.value_counts() if count["counts"].as_py() > 1)
        raise InputError(
            f"passage {twice!r} is in more than one place of the embeddings; give each shard once, with unique ids"
        )


def _write_queries(tables: Iterable[pa.Table], passages: int, file: Path) -> None:
    """Writes the queries of all passages in small row groups, so that the queries of a few passages can be read."""
    rows = Rows(tables)
    with pq.ParquetWriter(file, pa.schema([QUERIES_FIELD]), compression="zstd") as writer:
        for first in range(0, passages, ROW_GROUP):
            writer.write_table(rows.take(min(ROW_GROUP, passages - first)))


def _corpus_digest(passages: pa.Table) -> str:
    """sha256 over the passages' ids and contents, in order, one line per passage; independent of the shards."""
    digest = hashlib.sha256()
    for batch in passages.select(["id", "content_hash"]).to_batches(max_chunksize=HASHED_AT_ONCE):
        lines = pc.binary_join_element_wise(batch["id"], batch["content_hash"], "\0")
        joined = pc.binary_join(pa.ListArray.from_arrays([0, len(lines)], lines), "\n")
        digest.update(joined[0].as_buffer())
        digest.update(b"\n")
    return digest.hexdigest()
