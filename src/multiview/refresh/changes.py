"""The changes of a corpus since an index was built: which passages must be encoded, and which the index holds."""

import shutil

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from multiview import names
from multiview.artifacts.record import Artifact, Record, load_record
from multiview.artifacts.staging import stage
from multiview.config import Config, JsonObject
from multiview.data.passages import PassageRows, shard_files
from multiview.data.shards import write_shards
from multiview.encoding.embeddings import of_passages
from multiview.index.view_index import PASSAGES_FILE
from multiview.steps.context import StepContext
from multiview.steps.path import shard_file, shard_name
from multiview.steps.table import STEPS

CHANGES_FILE = "changes.parquet"
SCHEMA = pa.schema([("old", pa.int64())])
KNOWN_BY = ["id", "content_hash"]
MADE_BY = (
    *("encode", "encode-with-queries", "index", "index-with-search"),
    *("refresh-index", "refresh-index-with-search"),
)
"""The steps that made what an index holds."""


def find_changes(context: StepContext) -> None:
    """Step: find the passages of a new corpus (`passages`) that an `index` holds already, as `model` encodes them.

    A passage is kept if the index holds its id with the same content, and its views come from the same model, the same
    settings of `encode` for passages and `index.merge_views`, and the current versions of the steps that made the index
    and its embeddings. Its sentences must have been split for the same language by the same version, and its queries
    made by the same `generator` (where that is an input) with the same settings of generation. With
    `settings.refresh.full` none is kept.

    Writes the other passages, in corpus order, into `corpus.shards` files `shard-00.parquet` … of nearly equal numbers.
    Where all passages must be encoded and the corpus has as many files, its files are copied unchanged, so that
    existing embeddings of them are found. `changes.parquet` has one row per passage of the new corpus, in order:
    `old`, its row in the index, or -1 where it must be encoded.

    Memory holds the ids and hashes of both corpora, and one row group of texts. Raises InputError for an index that
    was built from passages that are gone.
    """
    index = load_record(context.recorded_input("index").address)
    files = shard_files(context.input("passages").path)
    known = pq.read_table(stage(*index, PASSAGES_FILE).path / PASSAGES_FILE, columns=KNOWN_BY)
    passages = pa.concat_tables([pq.read_table(file, columns=KNOWN_BY) for file in files])
    old, same = match(passages, known)
    full = _why_full(known, index, context)
    old_rows = np.where(same & (not full), old, -1)
    changed, folder = np.flatnonzero(old_rows < 0), context.output(names.CHANGES)
    pq.write_table(pa.table([old_rows], schema=SCHEMA), folder / CHANGES_FILE, compression="zstd")
    shards = context.settings.corpus.shards
    if len(changed) == len(old_rows) and len(files) == shards:
        for number, file in enumerate(files):  # another version of Parquet's writer might change bytes
            shutil.copyfile(file, folder / shard_file(shard_name(number)))
    else:
        tables = (table for _, table in PassageRows(files).tables(changed))
        sizes = [len(part) for part in np.array_split(changed, shards)]
        write_shards(tables, sizes, folder, context.events.progress, pq.read_schema(files[0]))
    context.events.fact(full=full)
    context.events.figures(
        passages=len(old_rows),
        kept=len(old_rows) - len(changed),
        added=int((old < 0).sum()),
        changed=int(((old >= 0) & ~same).sum()),
        removed=known.num_rows - int((old >= 0).sum()),
        to_encode=len(changed),
    )
    context.events.metric("share_encoded", len(changed) / max(1, len(old_rows)))


def match(passages: pa.Table, known: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Returns, for each of `passages`, its row in `known` by id [p] int64, -1 if it is new, and whether its content is
    the same [p] bool. Both tables have the columns `KNOWN_BY`."""
    rows = pc.index_in(passages["id"], value_set=known["id"])
    same = pc.equal(passages["content_hash"], known["content_hash"].take(rows))
    return pc.fill_null(rows, -1).to_numpy().astype(np.int64), pc.fill_null(same, False).to_numpy()


def _why_full(known: pa.Table, index: Artifact, context: StepContext) -> str:
    """Returns the reason to encode every passage; empty where the index's passages can be kept."""
    settings = context.settings
    if not known.num_rows:
        return "nothing to build on"
    if settings.refresh.full:
        return "refresh.full"
    if _of_another_version(index):
        return "an index of another version of multiview"
    embeddings = index.remembered_input("embeddings")
    if embeddings and _of_another_version(embeddings):
        return "embeddings of another version of multiview"
    if index.record.inputs["model"][0].digest != context.recorded_input("model").digest:
        return "another model"
    if of_passages(index.record.config.get("encode", {})) != settings.encode.key_settings():
        return "other settings of encode"
    if index.record.config.get("index", {}).get("merge_views") != settings.index.merge_views:
        return "another index.merge_views"
    if _sentences(index.input("passages")) != _sentences(load_record(context.input("passages").address)):
        return "sentences of another corpus.language or splitter"
    if "generator" in context.inputs:
        queries, generator = _queries_record(index), context.recorded_input("generator")
        if queries is None or queries.inputs["generator"][0].digest != generator.digest:
            return "queries of another generator"
        if queries.config.get("generation", {}) != settings.generation.key_settings():
            return "other settings of generation"
    return ""


def versions_fingerprint(settings: Config) -> JsonObject:
    """Returns the versions of the steps whose outputs `find_changes` may keep."""
    return {"versions": {name: STEPS[name].version for name in MADE_BY}}


def _of_another_version(artifact: Artifact) -> bool:
    """Whether the artifact was made by another version of its step than the current one."""
    made_by = STEPS.get(artifact.record.step)
    return made_by is not None and made_by.version != artifact.record.step_version


def _queries_record(index: Artifact) -> Record | None:
    """Returns the record of the queries that an index's passages were read with; None if no record names them."""
    artifact: Artifact | None = index
    # Embeddings of no passages are found whatever their queries: the index before them tells.
    while (
        artifact
        and (made := artifact.remembered_input("embeddings"))
        and not any(f.rows for f in made.record.files)
    ):
        artifact = artifact.remembered_input("old")
    for name in ("embeddings", names.QUERIES, "parts"):
        artifact = artifact and artifact.remembered_input(name)
    return artifact and artifact.record


def _sentences(passages: Artifact | None) -> tuple[object, ...] | None:
    """Returns what decides where sentences end, and so the views: the language, and the versions of step and NLTK."""
    record = passages and passages.record
    return record and (
        record.config.get("corpus", {}).get("language"),
        record.step_version,
        record.facts.get("nltk"),
    )
