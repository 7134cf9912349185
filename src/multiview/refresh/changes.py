"""What changed in a corpus since an index was built: the passages that must be encoded, and those that need not."""

# pyarrow.compute fills itself with functions when imported, which pyright cannot see.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from multiview import names
from multiview.artifacts.record import Record
from multiview.artifacts.staged import Recorded
from multiview.data.passages import ROW_GROUP, PassageRows, shard_files, shard_name
from multiview.data.shards import Rows, shard_sizes
from multiview.errors import InputError
from multiview.index.view_index import PASSAGES_FILE
from multiview.lineage.ancestry import Ancestor
from multiview.steps.context import StepContext
from multiview.steps.events import Events

CHANGES_FILE = "changes.parquet"
SCHEMA = pa.schema([("old", pa.int64())])
KNOWN_BY = ["id", "content_hash"]


def find_changes(context: StepContext) -> None:
    """Step: which passages of a new corpus (`passages`) an `index` holds already, as `model` would encode them.

    A passage is kept if the index has its id with the same content, of the same model, encoded with the same
    settings, sentences split for the same language, read with queries of the same `generator` (where that is an
    input) and settings of generation, and `settings.refresh.full` is not set. Writes the others into
    `corpus.shards` files `shard-00.parquet` …, in corpus order, as even as can be, in the schema of passages; files
    of passages as they are where all of them must be encoded, so that embeddings of them are found.
    `changes.parquet` has one row per passage of the new corpus, in order: `old`, its row in the index, or -1 where
    it must be encoded.

    In memory are the ids and hashes of both corpora, and a row group of texts. Raises InputError for an index of an
    earlier version, or whose own passages are gone.
    """
    index, files = _index(context.recorded_input("index")), shard_files(context.input("passages").path)
    known = _known(index)
    passages = pa.concat_tables([pq.read_table(file, columns=KNOWN_BY) for file in files])
    old, same = match(passages, known)
    full = _why_full(known, index, context)
    old_rows = np.where(same & (not full), old, -1)
    pq.write_table(
        pa.table([old_rows], schema=SCHEMA), context.output(names.CHANGES) / CHANGES_FILE, compression="zstd"
    )
    changed = np.flatnonzero(old_rows < 0)
    _write_shards(
        files,
        changed,
        len(old_rows),
        context.settings.corpus.shards,
        context.output(names.CHANGES),
        context.events,
    )
    context.events.fact("full", full)
    told = {
        "passages": len(old_rows),
        "kept": len(old_rows) - len(changed),
        "added": int((old < 0).sum()),
        "changed": int(((old >= 0) & ~same).sum()),
        "removed": known.num_rows - int((old >= 0).sum()),
        "to_encode": len(changed),
    }
    for name, value in told.items():
        context.events.fact(name, value)
        context.events.metric(name, float(value))
    context.events.metric("share_encoded", len(changed) / max(1, len(old_rows)))


def match(passages: pa.Table, known: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Row of each of `passages` in `known`, by its id, -1 where it is new [p] int64; and whether its content is the
    same [p] bool. Both tables have `KNOWN_BY`."""
    found = pc.index_in(passages["id"], value_set=known["id"])
    same = pc.equal(passages["content_hash"], known["content_hash"].take(found))
    return (
        pc.fill_null(found, -1).to_numpy().astype(np.int64),
        pc.fill_null(same, False).to_numpy(),
    )


def _index(recorded: Recorded) -> Ancestor:
    index = Ancestor.of(recorded)
    assert index is not None, "named inputs have an address"
    return index


def _known(index: Ancestor) -> pa.Table:
    """Ids and hashes of the passages of an index, of which nothing else is staged."""
    file = index.file(PASSAGES_FILE)
    metadata = pq.read_metadata(file)
    named = "model" in index.record.inputs or not metadata.num_rows
    if not named or not set(KNOWN_BY) <= set(metadata.schema.names):
        raise InputError(
            f"{index.store.url}/{index.record.folder}: this index was written by an earlier version of multiview and "
            "does not say what it holds: build it again, from the same embeddings"
        )
    return pq.read_table(file, columns=KNOWN_BY)


def _why_full(known: pa.Table, index: Ancestor, context: StepContext) -> str:
    """Why every passage must be encoded; empty where that is not so."""
    settings = context.settings
    if not known.num_rows:
        return "nothing to build on"
    if settings.refresh.full:
        return "refresh.full"
    if index.record.inputs["model"][0].digest != context.recorded_input("model").digest:
        return "another model"
    if index.record.config.get("encode", {}) != settings.encode.key_settings():
        return "other settings of encode"
    if _language(index.input("passages")) != _language(Ancestor.of(context.input("passages"))):
        return "another corpus.language"
    if "generator" in context.inputs:
        queries = _made_queries(index)
        if (
            queries is None
            or queries.inputs["generator"][0].digest != context.recorded_input("generator").digest
        ):
            return "queries of another generator"
        if queries.config.get("generation", {}) != settings.generation.key_settings():
            return "other settings of generation"
    return ""


def _made_queries(index: Ancestor) -> Record | None:
    """What the queries were made with that an index's passages were read with; None where nothing tells it."""
    found: Ancestor | None = index
    for name in ("embeddings", names.QUERIES, "parts"):
        found = found and found.remembered_input(name)
    return found and found.record


def _language(passages: Ancestor | None) -> str | None:
    """In which sentences were split, which are part of what is encoded; none: the default."""
    return passages and passages.record.config.get("corpus", {}).get("language")


def _write_shards(
    files: Sequence[Path], rows: np.ndarray, total: int, shards: int, folder: Path, events: Events
) -> None:
    """Write the passages of `rows`, of `total` in `files`, as shards."""
    if len(rows) == total and len(files) == shards:
        for number, file in enumerate(files):  # not even another version of Parquet's writer changes a byte
            shutil.copyfile(file, folder / shard_name(number))
        return
    tables = Rows(table for _, table in PassageRows(files).tables(rows))
    schema, written = pq.read_schema(files[0]), 0
    for number, size in enumerate(shard_sizes(len(rows), shards)):
        with pq.ParquetWriter(folder / shard_name(number), schema, compression="zstd") as writer:
            for first in range(0, size, ROW_GROUP):
                group = tables.take(min(ROW_GROUP, size - first))
                writer.write_table(group)
                written += group.num_rows
                events.progress(written, len(rows), "passages")
