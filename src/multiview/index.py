"""The index over views: built from embeddings, searched for passages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multiview.artifacts.staged import Staged
from multiview.data.passages import ROW_GROUP, PassageRows
from multiview.embeddings import QUERIES_FIELD, Embeddings
from multiview.errors import InputError
from multiview.search import TopPassages, rank_of, top_passages

INDEX_FILE = "index.faiss"
PASSAGES_FILE = "passages.parquet"
QUERIES_FILE = "queries.parquet"
HEADER_FILE = "index.json"
REBUILD = "delete this artifact's folder and run `index` again"

# From this many questions on, faiss multiplies matrices; its own threshold is so high that a hundred
# questions against a whole corpus go without BLAS, ten times slower.
faiss.cvar.distance_compute_blas_threshold = 20


def build_index(settings: Any, inputs: dict[str, Any], output: dict[str, Path], tell: Any) -> None:
    """Step: one exact inner-product index over the views of all shards.

    `inputs["embeddings"]` are the shards' embeddings, in shard order. Writes `index.faiss`,
    `passages.parquet` (id, offset, views), `index.json` and, where passages were read with queries,
    `queries.parquet` (theirs, a row a passage). Raises InputError when shards come from
    different models, differ in width, share a passage, or a block of views is damaged.
    """
    staged: Sequence[Staged] = inputs["embeddings"]
    folder = output["index"]
    shards = [Embeddings(shard.path) for shard in staged]
    _check_same_model(shards)
    passages = _passages_of(shards)
    total = sum(shard.rows for shard in shards)
    index: Any = faiss.IndexFlatIP(shards[0].dim)
    for shard in shards:
        for block in shard.read_blocks():
            index.add(block.astype(np.float32))
            tell.progress(index.ntotal, total, "views")
    faiss.write_index(index, str(folder / INDEX_FILE))
    pq.write_table(passages, folder / PASSAGES_FILE)
    _write_queries(shards, folder / QUERIES_FILE)
    header = {
        "kind": "exact",
        "model": shards[0].model,
        "embeddings": [shard.digest for shard in staged],
        "corpus": _corpus_digest(shards),
        "dim": shards[0].dim,
        "passages": passages.num_rows,
        "views": total,
    }
    (folder / HEADER_FILE).write_text(json.dumps(header, indent=1, sort_keys=True) + "\n")
    for name in ("passages", "views", "dim"):
        tell.fact(name, header[name])
    tell.metric("views_per_passage", total / passages.num_rows)


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
    ) -> None:
        self.faiss_index = faiss_index
        self.ids = ids
        self.offsets = offsets
        self.views = views
        self.header = header
        self._queries = queries
        self._rank = rank_of(ids)

    @classmethod
    def load(cls, folder: Path) -> ViewIndex:
        """Read an index that `build_index` wrote; raises InputError when its files do not fit together."""
        for name in (HEADER_FILE, PASSAGES_FILE, INDEX_FILE):
            if not (folder / name).is_file():
                raise InputError(f"{folder / name}: missing; {REBUILD}")
        header = json.loads((folder / HEADER_FILE).read_text())
        table = pq.read_table(folder / PASSAGES_FILE).combine_chunks()
        faiss_index: Any = faiss.read_index(str(folder / INDEX_FILE))
        views = table["views"].to_numpy().astype(np.int64)
        if faiss_index.ntotal != views.sum() or faiss_index.d != header["dim"]:
            raise InputError(
                f"{folder / INDEX_FILE}: {faiss_index.ntotal} views of width {faiss_index.d}, but {PASSAGES_FILE} counts "
                f"{views.sum()} and {HEADER_FILE} says {header['dim']}; {REBUILD}"
            )
        ids = table["id"].combine_chunks()
        queries = folder / QUERIES_FILE
        rows = PassageRows([queries]) if queries.is_file() else None
        return cls(faiss_index, ids, table["offset"].to_numpy(), views, header, rows)

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
        """The k best passages of each question, exact; `queries` [q, dim] with the score's scale included."""
        if queries.ndim != 2 or queries.shape[1] != self.faiss_index.d:
            raise InputError(
                f"the questions' vectors have shape {tuple(queries.shape)}, but the index is {self.faiss_index.d} wide: "
                "search with the index's own model"
            )
        return top_passages(self.faiss_index, self.offsets, self._rank, queries, k, tell_done=tell_done)

    def passage_scores(self, queries: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Scores of given passages for given questions [q, k] float32, the max over views as `search` has it.

        `numbers` [q, k] are passage numbers; -1, and a passage without views, scores -inf. Summed in float64,
        so that equal views score equally whatever stands beside them; one question's views are held at a time.
        """
        scores = np.full(numbers.shape, -np.inf, np.float32)
        for question, query in enumerate(queries.astype(np.float64)):
            places = np.flatnonzero(numbers[question] >= 0)
            places = places[self.views[numbers[question, places]] > 0]
            if not len(places):
                continue
            passages = numbers[question, places]
            counts = self.views[passages]
            firsts = np.cumsum(counts) - counts
            rows = np.arange(counts.sum()) + np.repeat(self.offsets[passages] - firsts, counts)
            views = self.faiss_index.reconstruct_batch(rows).astype(np.float64)
            scores[question, places] = np.maximum.reduceat(views @ query, firsts)
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
        return self.faiss_index.reconstruct_n(int(self.offsets[number]), int(self.views[number]))


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
