"""The index over views, searched for passages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multiview.data.passages import PassageRows
from multiview.errors import InputError
from multiview.index.approximate.kinds import read
from multiview.index.approximate.searching import Effort, approximate_top
from multiview.index.exact import TopPassages, rank_of, top_passages
from multiview.index.stored_views import VIEWS_FILE, FileViews, FlatViews, StoredViews, best_of

INDEX_FILE = "index.faiss"
PASSAGES_FILE = "passages.parquet"
QUERIES_FILE = "queries.parquet"
HEADER_FILE = "index.json"
REBUILD = "delete this artifact's folder and run `index` again"

# From this many questions on, faiss multiplies matrices; its own threshold is so high that a hundred
# questions against a whole corpus go without BLAS, ten times slower.
faiss.cvar.distance_compute_blas_threshold = 20


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
        """Read an index that a step wrote; raises InputError when its files do not fit together."""
        for name in (HEADER_FILE, PASSAGES_FILE, INDEX_FILE):
            if not (folder / name).is_file():
                raise InputError(f"{folder / name}: missing; {REBUILD}")
        header = json.loads((folder / HEADER_FILE).read_text())
        faiss_index = read(folder / INDEX_FILE, header)
        passages = pq.read_table(folder / PASSAGES_FILE, columns=["id", "offset", "views"])
        return cls.of(folder, faiss_index, passages, header)

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
        stored = stored_views(folder, faiss_index, header)
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
        self, queries: np.ndarray, k: int, report_done: Callable[[int], None] = lambda done: None
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
            return top_passages(
                self.faiss_index, self.offsets, self._rank, queries, k, report_done=report_done
            )
        return approximate_top(
            self.faiss_index,
            self.stored,
            self.offsets,
            self.views,
            self._rank,
            queries,
            k,
            self.effort,
            report_done=report_done,
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


def stored_views(folder: Path, faiss_index: Any, header: dict[str, Any]) -> StoredViews:
    """The views of the index in `folder` as `encode` stored them. Raises InputError where their file is not whole."""
    if header.get("exact", True):
        return FlatViews(faiss_index)
    return FileViews(folder / VIEWS_FILE, header["views"], header["dim"])
