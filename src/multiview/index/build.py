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
from typing import Any

import faiss
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from multiview import names
from multiview.artifacts.record import load_record
from multiview.artifacts.staged import Staged
from multiview.config import Encode, Index
from multiview.data.passages import ROW_GROUP
from multiview.data.shards import Rows
from multiview.encoding.embeddings import QUERIES_FIELD, Embeddings
from multiview.errors import InputError
from multiview.index.approximate.building import build
from multiview.index.approximate.kinds import EXACT
from multiview.index.approximate.measuring import measure
from multiview.index.stored_views import VIEWS_FILE, ViewBlocks
from multiview.index.view_index import HEADER_FILE, INDEX_FILE, PASSAGES_FILE, QUERIES_FILE, ViewIndex
from multiview.steps.context import StepContext
from multiview.steps.events import Events

SCHEMA = pa.schema(
    [("id", pa.string()), ("content_hash", pa.string()), ("offset", pa.int64()), ("views", pa.int32())]
)
"""The columns of an index's `passages.parquet`."""

HASHED_AT_ONCE = 1 << 16

Fill = Callable[[Sequence[ViewBlocks], Index, Callable[[np.ndarray], Any], Any], tuple[Any, dict[str, Any]]]
"""Makes an approximate faiss index of views, as `approximate.building.build` does."""


@dataclass(frozen=True)
class Content:
    """What an index is made of."""

    model: str
    """Digest of the model whose views these are."""
    passages: pa.Table
    """A row of `SCHEMA` for each passage, in order."""
    views: Sequence[ViewBlocks]
    """Theirs, one source after another."""
    queries: Iterable[pa.Table] | None = None
    """The queries that each passage was read with, a column of that name; none for most architectures."""


def build_index(context: StepContext) -> None:
    """Step: one inner-product index over the views of all shards, of the kind that `settings.index` asks for.

    `inputs["embeddings"]` are the shards' embeddings, in shard order, by the named `model`. See `write_index` for
    what is written. Raises InputError when shards come from another model or were encoded otherwise than
    `settings.encode` says, differ in width, share a passage, a block of views is damaged, or the kind does not
    suit them.
    """
    shards = open_embeddings(
        context.list_input("embeddings"), context.recorded_input("model").digest, context.settings.encode
    )
    queries = queries_of(shards) if with_queries(shards) else None
    content = Content(context.recorded_input("model").digest, passages_of(shards), shards, queries)
    write_index(context.output("index"), content, context.settings.index, build, context.events)


def write_index(folder: Path, content: Content, chosen: Index, fill: Fill, events: Events) -> None:
    """Write an index into `folder`; an approximate one is made by `fill`.

    Writes `index.faiss`, `passages.parquet` (`SCHEMA`), `index.json`, where passages were read with queries
    `queries.parquet` (theirs, a row a passage), and beside an approximate index `views.f16`, all views in
    float16. Tells what it cost and, by random views that are asked for like questions, what it finds. Raises
    InputError for no passages, or one that comes twice.
    """
    begun = time.perf_counter()
    passages = content.passages
    _check_passages(passages)
    header = {
        "kind": chosen.kind,
        "model": content.model,
        "corpus": _corpus_digest(passages),
        "dim": content.views[0].dim,
        "passages": passages.num_rows,
        "views": sum(source.rows for source in content.views),
    }
    if chosen.kind == EXACT:
        faiss_index = _exact(content.views, events)
    else:
        with (folder / VIEWS_FILE).open("wb") as file:
            faiss_index, about = fill(content.views, chosen, lambda block: file.write(block.data), events)
        header |= about
    faiss.write_index(faiss_index, str(folder / INDEX_FILE))
    pq.write_table(passages, folder / PASSAGES_FILE)
    if content.queries is not None:
        _write_queries(content.queries, passages.num_rows, folder / QUERIES_FILE)
    index = ViewIndex.of(folder, faiss_index, passages, header)
    events.fact("build_seconds", round(time.perf_counter() - begun, 3))
    measured = measure(index, chosen.measured, chosen.seed, events)
    if not index.exact:
        header["measured"] = measured
    (folder / HEADER_FILE).write_text(json.dumps(header, indent=1, sort_keys=True) + "\n")
    for name in ("passages", "views", "dim"):
        events.fact(name, header[name])
    for name in (names.DRIFT_ADDED, names.DRIFT_ERROR):
        if header.get(name) is not None:
            events.metric(name, header[name])
            events.fact(name, header[name])
    events.metric("views_per_passage", header["views"] / passages.num_rows)
    events.metric(names.BYTES_PER_PASSAGE, (folder / INDEX_FILE).stat().st_size / passages.num_rows)


def open_embeddings(staged: Sequence[Staged], model: str, encode: Encode) -> list[Embeddings]:
    """The embeddings of some shards. Raises InputError unless all are of the model with this digest, encoded with
    these settings as far as they change views, and of one width."""
    if not staged:
        raise InputError("index: no embeddings given; encode at least one shard")
    shards = [Embeddings(shard.path) for shard in staged]
    for one, shard in zip(staged, shards, strict=True):
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
        encoded = (
            load_record(one.address)[1].config.get("encode", {}) if one.address else encode.key_settings()
        )
        if encoded != encode.key_settings():
            raise InputError(
                f"{one.address}: encoded with {encoded or 'the defaults'} of encode, but the index is to say "
                f"{encode.key_settings() or 'the defaults'}; give both steps the same settings"
            )
    return shards


def passages_of(shards: Sequence[Embeddings]) -> pa.Table:
    """The passages of all shards in the columns of `SCHEMA`, offsets counting on from shard to shard."""
    columns = ["id", "content_hash", "views"]
    return placed(pa.concat_tables([shard.table.select(columns) for shard in shards]))


def placed(table: pa.Table) -> pa.Table:
    """Rows of `id, content_hash, views` in the columns of `SCHEMA`: each with the row of its first view."""
    views = table["views"].to_numpy().astype(np.int64)
    offsets = pa.array(np.cumsum(views) - views)
    return table.add_column(2, "offset", offsets).cast(SCHEMA).combine_chunks()


def with_queries(shards: Sequence[Embeddings]) -> bool:
    """Whether the passages of these shards were read with queries."""
    return all(QUERIES_FIELD.name in shard.table.column_names for shard in shards)


def queries_of(shards: Sequence[Embeddings]) -> Iterator[pa.Table]:
    """The queries of each shard's passages."""
    schema = pa.schema([QUERIES_FIELD])
    return (shard.table.select(schema.names).cast(schema) for shard in shards)


def _exact(sources: Sequence[ViewBlocks], events: Events) -> Any:
    total = sum(source.rows for source in sources)
    index: Any = faiss.IndexFlatIP(sources[0].dim)
    for source in sources:
        for block in source.read_blocks():
            index.add(block.astype(np.float32))
            events.progress(index.ntotal, total, "views")
    return index


def _check_passages(passages: pa.Table) -> None:
    if not passages.num_rows:
        raise InputError("index: the embeddings hold no passages; check the corpus that was encoded")
    ids = passages["id"]
    if len(ids.unique()) != len(ids):
        twice = next(count["values"].as_py() for count in ids.value_counts() if count["counts"].as_py() > 1)
        raise InputError(
            f"passage {twice!r} is in more than one place of the embeddings; give each shard once, with unique ids"
        )


def _write_queries(tables: Iterable[pa.Table], number: int, file: Path) -> None:
    """The queries of `number` passages, in row groups that are read for a few of them."""
    rows = Rows(tables)
    with pq.ParquetWriter(file, pa.schema([QUERIES_FIELD]), compression="zstd") as writer:
        for first in range(0, number, ROW_GROUP):
            writer.write_table(rows.take(min(ROW_GROUP, number - first)))


def _corpus_digest(passages: pa.Table) -> str:
    """sha256 over the passages' ids and contents, in order, a line each, whatever the shards."""
    digest = hashlib.sha256()
    for batch in passages.select(["id", "content_hash"]).to_batches(max_chunksize=HASHED_AT_ONCE):
        named = pc.binary_join_element_wise(batch["id"], batch["content_hash"], "\0")
        lines = pc.binary_join(pa.ListArray.from_arrays([0, len(named)], named), "\n")
        digest.update(lines[0].as_buffer())
        digest.update(b"\n")
    return digest.hexdigest()
