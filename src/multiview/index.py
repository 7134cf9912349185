"""The index over views: built from embeddings, searched for passages."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multiview import names
from multiview.approximate.building import build
from multiview.approximate.kinds import EXACT, read
from multiview.approximate.measuring import measure
from multiview.approximate.searching import Effort, approximate_top
from multiview.artifacts.staged import Staged
from multiview.config import Index
from multiview.data.passages import ROW_GROUP, PassageRows
from multiview.embeddings import QUERIES_FIELD, Embeddings
from multiview.errors import InputError
from multiview.search import TopPassages, rank_of, top_passages
from multiview.views import VIEWS_FILE, FileViews, FlatViews, StoredViews, best_of

INDEX_FILE = "index.faiss"
PASSAGES_FILE = "passages.parquet"
QUERIES_FILE = "queries.parquet"
HEADER_FILE = "index.json"
REBUILD = "delete this artifact's folder and run `index` again"

# From this many questions on, faiss multiplies matrices; its own threshold is so high that a hundred
# questions against a whole corpus go without BLAS, ten times slower.
faiss.cvar.distance_compute_blas_threshold = 20


def build_index(settings: Any, inputs: dict[str, Any], output: dict[str, Path], tell: Any) -> None:
    """Step: one inner-product index over the views of all shards, of the kind that `settings.index` asks for.

    `inputs["embeddings"]` are the shards' embeddings, in shard order. Writes `index.faiss`,
    `passages.parquet` (id, offset, views), `index.json`, where passages were read with queries
    `queries.parquet` (theirs, a row a passage), and beside an approximate index `views.f16`, all views in
    float16. Tells what it cost and, by random views that are asked for like questions, what it finds.
    Raises InputError when shards come from different models, differ in width, share a passage, a block of
    views is damaged, or the kind does not suit them.
    """
    begun = time.perf_counter()
    chosen: Index = settings.index
    staged: Sequence[Staged] = inputs["embeddings"]
    folder = output["index"]
    shards = [Embeddings(shard.path) for shard in staged]
    _check_same_model(shards)
    passages = _passages_of(shards)
    header = {
        "kind": chosen.kind,
        "model": shards[0].model,
        "embeddings": [shard.digest for shard in staged],
        "corpus": _corpus_digest(shards),
        "dim": shards[0].dim,
        "passages": passages.num_rows,
        "views": sum(shard.rows for shard in shards),
    }
    if chosen.kind == EXACT:
        faiss_index = _build_exact(shards, tell)
    else:
        with (folder / VIEWS_FILE).open("wb") as file:
            faiss_index, about = build(shards, chosen, lambda block: file.write(block.data), tell)
        header |= about
    faiss.write_index(faiss_index, str(folder / INDEX_FILE))
    pq.write_table(passages, folder / PASSAGES_FILE)
    _write_queries(shards, folder / QUERIES_FILE)
    index = ViewIndex.of(folder, faiss_index, passages, header)
    tell.fact("build_seconds", round(time.perf_counter() - begun, 3))
    measured = measure(index, chosen.measured, chosen.seed, tell)
    if not index.exact:
        header["measured"] = measured
    (folder / HEADER_FILE).write_text(json.dumps(header, indent=1, sort_keys=True) + "\n")
    for name in ("passages", "views", "dim"):
        tell.fact(name, header[name])
    tell.metric("views_per_passage", header["views"] / passages.num_rows)
    tell.metric(names.BYTES_PER_PASSAGE, (folder / INDEX_FILE).stat().st_size / passages.num_rows)


def _build_exact(shards: Sequence[Embeddings], tell: Any) -> Any:
    total = sum(shard.rows for shard in shards)
    index: Any = faiss.IndexFlatIP(shards[0].dim)
    for shard in shards:
        for block in shard.read_blocks():
            index.add(block.astype(np.float32))
            tell.progress(index.ntotal, total, "views")
    return index


class ViewIndex:
    """A view index with its view→passage map.

    Passages are numbers here, in the corpus's order; `passage_id` names them.
    """

    def __init__(
        self,
        faiss_index: Any,
        ids: pa.Array,
        offsets: np.ndarray,
        views: np.ndarray,
        header: dict[str, Any],
        queries: PassageRows | None = None,
        stored: StoredViews | None = None,
    ) -> None:
        """`stored` are the views beside an approximate index; an exact one holds them itself."""
        self.faiss_index = faiss_index
        self.stored = stored or FlatViews(faiss_index)
        self.ids = ids
        self.offsets = offsets
        self.views = views
        self.header = header
        self._queries = queries
        self._rank = rank_of(ids)
        self.exact: bool = header.get("exact", True)
        """Whether searches find the best passages; an approximate index may miss some."""
        self.effort = Effort(*(header.get(name, 0) for name in ("probes", "ef_search", "rerank")))
        """How hard searches of an approximate index try; it may be replaced."""

    @classmethod
    def load(cls, folder: Path) -> ViewIndex:
        """Read an index that `build_index` wrote; raises InputError when its files do not fit together."""
        for name in (HEADER_FILE, PASSAGES_FILE, INDEX_FILE):
            if not (folder / name).is_file():
                raise InputError(f"{folder / name}: missing; {REBUILD}")
        header = json.loads((folder / HEADER_FILE).read_text())
        faiss_index = read(folder / INDEX_FILE, header)
        return cls.of(folder, faiss_index, pq.read_table(folder / PASSAGES_FILE), header)

    @classmethod
    def of(cls, folder: Path, faiss_index: Any, passages: pa.Table, header: dict[str, Any]) -> ViewIndex:
        """The index in `folder`, of which the faiss index and the table of passages are in memory."""
        table = passages.combine_chunks()
        views = table["views"].to_numpy().astype(np.int64)
        if faiss_index.ntotal != views.sum() or faiss_index.d != header["dim"]:
            raise InputError(
                f"{folder / INDEX_FILE}: {faiss_index.ntotal} views of width {faiss_index.d}, but {PASSAGES_FILE} counts "
                f"{views.sum()} and {HEADER_FILE} says {header['dim']}; {REBUILD}"
            )
        stored = None
        if not header.get("exact", True):
            stored = FileViews(folder / VIEWS_FILE, int(views.sum()), header["dim"])
        ids = table["id"].combine_chunks()
        queries = folder / QUERIES_FILE
        rows = PassageRows([queries]) if queries.is_file() else None
        return cls(faiss_index, ids, table["offset"].to_numpy(), views, header, rows, stored)

    def __len__(self) -> int:
        """Number of passages."""
        return len(self.ids)

    @property
    def model(self) -> str:
        """Digest of the model whose views these are."""
        return self.header["model"]

    def check_model(self, digest: str) -> None:
        """Raise InputError unless `digest`, the questions' model, is the model of the views."""
        if digest != self.model:
            raise InputError(
                f"the index holds views of model {self.model[:12]}, but the questions are of model {digest[:12]}: "
                "search with the index's own model, or encode and index the corpus with this one"
            )

    def search(
        self, queries: np.ndarray, k: int, tell_done: Callable[[int], None] = lambda done: None
    ) -> TopPassages:
        """The k best passages of each question, of those that the index proposes if it is not `exact`.

        `queries` [q, dim] with the score's scale included.
        """
        if queries.ndim != 2 or queries.shape[1] != self.stored.dim:
            raise InputError(
                f"the questions' vectors have shape {tuple(queries.shape)}, but the index is {self.stored.dim} wide: "
                "search with the index's own model"
            )
        if self.exact:
            return top_passages(self.faiss_index, self.offsets, self._rank, queries, k, tell_done=tell_done)
        return approximate_top(
            self.faiss_index,
            self.stored,
            self.offsets,
            self.views,
            self._rank,
            queries,
            k,
            self.effort,
            tell_done=tell_done,
        )

    def passage_scores(self, queries: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Scores of given passages for given questions [q, k] float32, the max over views as `search` has it.

        `numbers` [q, k] are passage numbers; -1, and a passage without views, scores -inf. Summed in float64,
        so that equal views score equally whatever stands beside them; one question's views are held at a time.
        """
        scores = np.full(numbers.shape, -np.inf, np.float32)
        for question, query in enumerate(queries.astype(np.float64)):
            places = np.flatnonzero(numbers[question] >= 0)
            places = places[self.views[numbers[question, places]] > 0]
            passages = numbers[question, places]
            scores[question, places] = best_of(self.stored, self.offsets, self.views, query, passages)[0]
        return scores

    def passage_id(self, number: int) -> str:
        """The user's id of a passage."""
        return self.ids[number].as_py()

    def queries(self, numbers: Iterable[int]) -> dict[int, tuple[str, ...]]:
        """The queries that each of these passages was read with, one a view; none for most architectures."""
        wanted = list(numbers)
        if self._queries is None:
            return dict.fromkeys(wanted, ())
        return {number: tuple(row["queries"]) for number, row in self._queries.rows(wanted).items()}

    def view_scores(self, query: np.ndarray, number: int) -> np.ndarray:
        """The scores of all views of one passage [views] float32, for showing why it was found."""
        return self.views_of(number) @ np.asarray(query, dtype=np.float32)

    def views_of(self, number: int) -> np.ndarray:
        """The views of one passage [views, dim] float32."""
        return self.stored.run(int(self.offsets[number]), int(self.views[number]))


def _check_same_model(shards: Sequence[Embeddings]) -> None:
    if not shards:
        raise InputError("index: no embeddings given; encode at least one shard")
    first = shards[0]
    for shard in shards[1:]:
        if shard.model != first.model:
            raise InputError(
                f"{shard.folder}: views of model {shard.model[:12]}, but {first.folder} has model {first.model[:12]}; "
                "encode all shards with one model"
            )
        if shard.dim != first.dim:
            raise InputError(
                f"{shard.folder}: {shard.dim} wide, but {first.folder} is {first.dim} wide; encode all shards with one model"
            )


def _passages_of(shards: Sequence[Embeddings]) -> pa.Table:
    """id, offset, views of all shards, offsets counting on from shard to shard."""
    tables = []
    start = 0
    for shard in shards:
        offset = pa.array(shard.table["offset"].to_numpy() + start, pa.int64())
        tables.append(pa.table({"id": shard.table["id"], "offset": offset, "views": shard.table["views"]}))
        start += shard.rows
    passages = pa.concat_tables(tables).combine_chunks()
    if not passages.num_rows:
        raise InputError("index: the embeddings hold no passages; check the corpus that was encoded")
    ids = passages["id"]
    if len(ids.unique()) != len(ids):
        twice = next(count["values"].as_py() for count in ids.value_counts() if count["counts"].as_py() > 1)
        raise InputError(
            f"passage {twice!r} is in more than one place of the embeddings; give each shard once, with unique ids"
        )
    return passages


def _write_queries(shards: Sequence[Embeddings], file: Path) -> None:
    """The queries of all shards, where there are any, in row groups that are read for a few passages."""
    if not all("queries" in shard.table.column_names for shard in shards):
        return
    schema = pa.schema([QUERIES_FIELD])
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for shard in shards:
            writer.write_table(shard.table.select(["queries"]).cast(schema), row_group_size=ROW_GROUP)


def _corpus_digest(shards: Sequence[Embeddings]) -> str:
    """sha256 over the passages' ids and contents, in order, whatever the shards."""
    digest = hashlib.sha256()
    for shard in shards:
        for batch in shard.table.select(["id", "content_hash"]).to_batches(max_chunksize=65536):
            for passage, content in zip(
                batch["id"].to_pylist(), batch["content_hash"].to_pylist(), strict=True
            ):
                digest.update(f"{passage}\0{content}\n".encode())
    return digest.hexdigest()
