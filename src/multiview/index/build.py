"""Building and writing an index: from the embeddings of all shards, or from any other stored views in order."""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from multiview import metric_names
from multiview.artifacts.record import load_record
from multiview.artifacts.staging import LocalArtifact
from multiview.config import Encode, Index, JsonObject
from multiview.data.passages import read_passages
from multiview.encoding.embeddings import QUERIES_FIELD, VIEWS_FILE, Embeddings, of_passages
from multiview.errors import InputError
from multiview.index.approximate import EXACT, FaissObject
from multiview.index.merged_corpus import MergedCorpus
from multiview.index.ranker import write_search
from multiview.index.stored_views import LONGEST_VIEW, longest_view
from multiview.index.view_index import HEADER_FILE, INDEX_FILE, PASSAGES_FILE, QUERIES_FILE
from multiview.steps.context import StepContext
from multiview.steps.events import Events

HASHED_AT_ONCE = 1 << 16

BlocksOfViews = Iterator[tuple[np.ndarray, np.ndarray]]
"""Rows and views of each block of a corpus, in order (`MergedCorpus.blocks`)."""

ApproximateBuilder = Callable[[BlocksOfViews], tuple[FaissObject, JsonObject]]
"""Builds an approximate faiss index from views; returns it with its entries of the header."""


def build_index(context: StepContext, search: JsonObject | None = None) -> None:
    """Step: build one inner-product index over the views of all shards, of the kind that `settings.index` names.

    The input `embeddings` are those of the shards, in order, made by the recorded input `model`. Raises InputError where
    shards come from another model or other settings, are not all of the recorded `passages` in their order, share a
    passage or are damaged, or the kind does not suit them.
    """
    model, staged = context.recorded_input("model").digest, context.list_input("embeddings")
    shards = open_embeddings(staged, model, context.settings.encode)
    passages = context.input("passages") if search is not None else context.recorded_input("passages")
    _check_shards(staged, passages.address)
    settings = context.settings
    corpus = MergedCorpus(shards, merge_views=settings.index.merge_views)
    write_index(context.output("index"), model, corpus, settings.index, context.events, search or {})


def build_index_with_search(context: StepContext) -> None:
    """Step: build an index that ranks the input `passages` as `settings.search` says, by BM25 or with a reranker."""
    passages = read_passages(context.input("passages").path)
    build_index(context, write_search(context.output("index"), context.settings, passages))


def write_index(
    folder: Path,
    model: str,
    corpus: MergedCorpus,
    settings: Index,
    events: Events,
    search: JsonObject,
    build_approximate: ApproximateBuilder | None = None,
) -> None:
    """Writes an index of a corpus, whose views are of the model with digest `model`, into `folder`.

    `search` has the header's entries on BM25 and reranking (`write_search`). `build_approximate` builds the faiss index
    where `settings.kind` is not exact; default: `approximate.kinds.build`.
    Writes `views.f16` (all views in float16), `passages.parquet` (`ROWS_SCHEMA`, `KEPT_FIELD`), `index.json`, for an approximate
    index `index.faiss`, and where passages were read with queries `queries.parquet` (one row per passage). Reports the
    cost of the index. Raises InputError where there are no passages, or a passage occurs twice.
    """
    begun = time.perf_counter()
    passages, queries = corpus.passages, corpus.queries()
    _check_passages(passages)
    header = {
        "kind": settings.kind,
        "model": model,
        "corpus": _corpus_digest(passages),
        "dim": corpus.dim,
        "passages": passages.num_rows,
        "views": corpus.rows,
        **search,
    }
    header[LONGEST_VIEW] = 0.0
    with (folder / VIEWS_FILE).open("wb") as stored:

        def blocks() -> BlocksOfViews:
            for rows, views in corpus.blocks():
                stored.write(views.data)
                header[LONGEST_VIEW] = longest_view(views, header[LONGEST_VIEW])
                yield rows, views
                events.progress(int(rows[-1]) + 1, corpus.rows, "views")

        if settings.kind == EXACT:
            for _ in blocks():
                pass
        else:
            from multiview.index.approximate.kinds import build
            from multiview.index.faiss_library import faiss

            fill = build_approximate or partial(build, corpus, settings)
            faiss_index, about = fill(blocks())
            header |= about
            faiss.write_index(faiss_index, str(folder / INDEX_FILE))
    pq.write_table(passages, folder / PASSAGES_FILE)
    if queries is not None:
        # In small row groups, so that the queries of a few passages can be read.
        with pq.ParquetWriter(folder / QUERIES_FILE, pa.schema([QUERIES_FIELD]), compression="zstd") as file:
            for table in queries:
                file.write_table(table)
    (folder / HEADER_FILE).write_text(json.dumps(header, indent=1, sort_keys=True) + "\n")
    events.fact(build_seconds=round(time.perf_counter() - begun, 3))
    searched = VIEWS_FILE if settings.kind == EXACT else INDEX_FILE
    _report(header, (folder / searched).stat().st_size, events)


def _report(header: JsonObject, index_bytes: int, events: Events) -> None:
    events.fact(**{name: header[name] for name in ("passages", "views", "dim")})
    for name in (metric_names.DRIFT_ADDED, metric_names.DRIFT_ERROR):
        if header.get(name) is not None:
            events.figures(**{name: header[name]})
    events.metric("views_per_passage", header["views"] / header["passages"])
    events.metric("bytes_per_passage", index_bytes / header["passages"])


def open_embeddings(staged: Sequence[LocalArtifact], model: str, encode: Encode) -> list[Embeddings]:
    """Opens the embeddings of all shards.

    Raises InputError unless all shards were encoded by the model with digest `model`, and with those of the settings
    `encode` that change views of passages.
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
        expected = of_passages(encode.key_settings())
        record = load_record(artifact.address)[1] if artifact.address else None
        encoded = of_passages(record.config.get("encode", {})) if record else expected
        if encoded != expected:
            raise InputError(
                f"{artifact.address}: encoded with {encoded or 'the defaults'} of encode, but the index is to say "
                f"{expected or 'the defaults'}; give both steps the same settings"
            )
    return shards


def _check_shards(staged: Sequence[LocalArtifact], passages: str) -> None:
    """Compares contents: a shard that a grown or reordered corpus still has is not encoded again. Where the corpus that
    was encoded is gone, names have to do."""
    read = [load_record(artifact.address) for artifact in staged if artifact.address]
    shards = [(each.remembered_input("passages"), each.record.inputs["passages"][0]) for each in read]
    wanted = load_record(passages).record.files if read else []
    are_equal = (
        corpus.record.file(shard.file or "").sha256 == file.sha256 if corpus else shard.file == file.path
        for (corpus, shard), file in zip(shards, wanted, strict=False)
    )
    if len(shards) != len(wanted) or not all(are_equal):
        given = ", ".join(f"{shard.address}/{shard.file}" for _, shard in shards)
        raise InputError(
            f"index: the embeddings are of {given}; give those of each shard of {passages} once, in order"
        )


def _check_passages(passages: pa.Table) -> None:
    if not passages.num_rows:
        raise InputError("index: the embeddings hold no passages; check the corpus that was encoded")
    ids = passages["id"]
    if len(ids.unique()) != len(ids):
        twice = next(count["values"].as_py() for count in ids.value_counts() if count["counts"].as_py() > 1)
        raise InputError(
            f"passage {twice!r} is in more than one place of the embeddings; give each shard once, with unique ids"
        )


def _corpus_digest(passages: pa.Table) -> str:
    """sha256 over the passages' ids and contents, in order, one line per passage; independent of the shards."""
    digest = hashlib.sha256()
    for batch in passages.select(["id", "content_hash"]).to_batches(max_chunksize=HASHED_AT_ONCE):
        lines = pc.binary_join_element_wise(batch["id"], batch["content_hash"], "\0")
        joined = pc.binary_join(pa.ListArray.from_arrays([0, len(lines)], lines), "\n")
        digest.update(joined[0].as_buffer())
        digest.update(b"\n")
    return digest.hexdigest()
