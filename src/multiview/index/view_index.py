"""The index over views, searched for passages."""

import json
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from multiview import names
from multiview.config import JsonObject
from multiview.data.arrays import numbers
from multiview.data.passages import PassageRows
from multiview.encoding.embeddings import KEPT_FIELD, VIEW_DTYPE, VIEWS_FILE, map_views
from multiview.errors import InputError, counted
from multiview.index.approximate import EXACT, FaissObject
from multiview.index.ranking import ALL_VIEWS, TieOrder, TopPassages, ViewRange, width
from multiview.index.stored_views import LONGEST_VIEW, PAIRS_AT_ONCE, score_passages
from multiview.model.layouts.base import Layout
from multiview.steps.context import StepContext

INDEX_FILE = "index.faiss"
PASSAGES_FILE = "passages.parquet"
QUERIES_FILE = "queries.parquet"
HEADER_FILE = "index.json"
SEARCH = "search"
"""Entry of the header of an index that does not rank by views alone (`index.ranker`)."""


def ranking(header: JsonObject) -> str:
    """Returns how an index ranks passages, as its header says: `hybrid, reranked`, for example; empty if by views alone."""
    how = header.get(SEARCH, {})
    names = [how["mode"]] if how.get("mode", "dense") != "dense" else []
    return ", ".join(names + ["reranked"] * bool(how.get("rerank_depth")))


class ViewIndex:
    """An index over the views of a corpus, which is searched for passages.

    Passages are named by their rows, counted from 0 in the corpus's order; `passage_id` gives a passage's id.
    """

    def __init__(
        self,
        views: np.ndarray,
        ids: pa.Array,
        offsets: np.ndarray,
        view_counts: np.ndarray,
        header: JsonObject,
        faiss_index: FaissObject | None = None,
        queries: PassageRows | None = None,
        device: str = "cpu",
        kept: pa.Array | None = None,
    ) -> None:
        """`ids`, `offsets` and `view_counts` [p] are each passage's id, the row of its first view, and the number of
        its views [v, dim] float16. An approximate index also has a `faiss_index` over them. Exact searches
        multiply on `device`. `kept` [p] are lists of bool where views were merged (`KEPT_FIELD`)."""
        from multiview.index.exact import ExactSearch  # and torch, which takes seconds

        self.views = views
        self.ids = ids
        self.offsets = offsets
        self.view_counts, self.stored_counts = view_counts, view_counts
        self.header = header
        self.kept = kept
        self._faiss_index = faiss_index
        self._queries = queries
        self.tie_order = TieOrder(ids)
        """Position of each passage's id in string order; decides between passages that tie."""
        self._search = ExactSearch(views, offsets, self.tie_order, header[LONGEST_VIEW], device, view_counts)
        self.exact = faiss_index is None
        """Whether searches find the best passages; an approximate index may miss some."""

    @classmethod
    def load(cls, folder: Path, device: str = "cpu") -> Self:
        """Reads an index that a step wrote; exact searches multiply on `device`, as torch names it.

        Raises InputError where the files do not fit together, or an approximate index needs faiss and it is not installed.
        """
        header = json.loads((folder / HEADER_FILE).read_text())
        approximate = header["kind"] != EXACT
        faiss_index = _read_faiss(folder / INDEX_FILE) if approximate else None
        # `pq.read_table` would import pyarrow.dataset and pandas, for half a second.
        with pq.ParquetFile(folder / PASSAGES_FILE) as file:
            there = {*file.schema_arrow.names}
            table = file.read([each for each in ("id", "offset", "views", KEPT_FIELD.name) if each in there])
        table = table.combine_chunks()
        kept = table[KEPT_FIELD.name].combine_chunks() if KEPT_FIELD.name in there else None
        view_counts = numbers(table["views"]).astype(np.int64)
        rows, dim, stored = header["views"], header["dim"], (folder / VIEWS_FILE).stat().st_size
        counted_views = {
            HEADER_FILE: rows,
            PASSAGES_FILE: int(view_counts.sum()),
            VIEWS_FILE: stored // (dim * VIEW_DTYPE.itemsize),
            **({INDEX_FILE: faiss_index.ntotal} if faiss_index else {}),
        }
        if len({*counted_views.values()}) > 1:
            each = ", ".join(f"{count:,} by {name}" for name, count in counted_views.items())
            raise InputError(
                f"{folder}: its files differ in the number of views: {each}; delete this folder and run `index` again"
            )
        views = map_views(folder / VIEWS_FILE, rows, dim)
        ids, offsets = table["id"].combine_chunks(), numbers(table["offset"])
        queries = PassageRows([folder / QUERIES_FILE]) if (folder / QUERIES_FILE).is_file() else None
        return cls(views, ids, offsets, view_counts, header, faiss_index, queries, device, kept)

    @classmethod
    def of_step(cls, context: StepContext) -> Self:
        """Opens the input `index` of a step. Raises InputError where its views are not of the input `model`."""
        from multiview.model.devices import device

        staged, searching = context.input("index"), device(context.settings.encode.device, "encode.device")
        index = cls.load(staged.path, str(searching))
        index.check_model(context.input("model").digest)
        return index

    def __len__(self) -> int:
        """Number of passages."""
        return len(self.ids)

    def check_model(self, digest: str) -> None:
        """Raises InputError unless `digest`, the questions' model, is the model of the views."""
        if digest != (model := self.header["model"]):
            raise InputError(
                f"the index holds views of model {model[:12]}, but the questions are of model {digest[:12]}: "
                "search with the index's own model, or encode and index the corpus with this one"
            )

    def first_views(self, count: int | None, layout: Layout | type[Layout]) -> Self:
        """Returns this index as if each passage had only its first `count` views; itself without a count or passages.

        Raises InputError where the first views of `layout` do not stand for a passage, for an approximate index or
        merged views, and for more views than there are.
        """
        if count is None or not len(self):
            return self
        most = int(self.view_counts.max(initial=0))
        if not layout.nested:
            raise InputError(
                f"views={count}: the first views of architecture {layout.name} do not stand for a passage; leave it out"
            )
        if not self.exact:
            raise InputError(
                f"views={count}: an approximate index proposes passages by all of their views; leave it out, or build one with "
                f"index.kind={EXACT}"
            )
        if self.kept is not None:
            raise InputError(
                f"views={count}: the index leaves out views by index.merge_views; leave one of the two out"
            )
        if not 1 <= count <= most:
            raise InputError(
                f"views={count}: the index has {counted(most, 'view')} per passage; choose 1 to {most}"
            )
        counts, device = np.minimum(self.view_counts, count), self._search.device
        stored = self.views, self.ids, self.offsets, counts, self.header
        first = type(self)(*stored, queries=self._queries, device=device)
        first.stored_counts = self.stored_counts
        return first

    def search(
        self,
        queries: np.ndarray,
        k: int,
        report_done: Callable[[int], None] = lambda done: None,
        among: np.ndarray | None = None,
    ) -> TopPassages:
        """The k best passages of each question; of those that the index proposes, if it is not `exact`.

        `queries` [q, dim] have the scale of scores. `among` [p] bool restricts the search to these passages; it is then
        exact, since an approximate index cannot propose from a subset. Results are at most as wide as the index. Raises
        InputError for queries of another width.
        """
        if queries.ndim != 2 or queries.shape[1] != self.views.shape[1]:
            raise InputError(
                f"the questions' vectors have shape {tuple(queries.shape)}, but the index is {self.views.shape[1]} wide: "
                "search with the index's own model"
            )
        if self._faiss_index is None or among is not None:
            return self.search_views([ALL_VIEWS], queries, k, report_done, among)[0]
        from multiview.index.approximate.search import ApproximateSearch

        passages = self.views, self.offsets, self.view_counts, self.tie_order
        search = ApproximateSearch(self._faiss_index, self.header, *passages)
        return search.top(queries, width(k, len(self)), report_done)

    def search_views(
        self,
        ranges: Sequence[ViewRange],
        queries: np.ndarray,
        k: int,
        report_done: Callable[[int], None] = lambda done: None,
        among: np.ndarray | None = None,
    ) -> list[TopPassages]:
        """The k best passages by each of several `ranges` of their views, exactly and in one pass over all views; with
        `among` [p] bool, only of passages in it. Results are at most as wide as the index has passages."""
        return self._search.top(queries, width(k, len(self)), ranges, among=among, report_done=report_done)

    def pair_scores(
        self, queries: np.ndarray, questions: np.ndarray, passages: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Scores of pairs of a question and a passage [n] float32, as in `search`, and which view has each [n] int32.

        `questions` [n] are rows of `queries`, `passages` [n] rows of the index. For a row of -1, and for a passage
        without views, they are -inf and -1. Views are read once, in their order.
        """
        scores, winners = np.full(len(passages), -np.inf, np.float32), np.full(len(passages), -1, np.int32)
        known = np.flatnonzero((passages >= 0) & (self.view_counts[passages] > 0))
        in_order = known[passages[known].argsort()]
        for start in range(0, len(in_order), PAIRS_AT_ONCE):  # with the vectors of these alone
            some = in_order[start : start + PAIRS_AT_ONCE]
            pairs, places = np.unique(questions[some] * len(self) + passages[some], return_inverse=True)
            rows, (asked, of) = pairs % len(self), np.unique(pairs // len(self), return_inverse=True)
            starts, counts = self.offsets[rows], self.view_counts[rows]
            best, views = score_passages(self.views, starts, counts, queries[asked], of)
            scores[some], winners[some] = best[places], views[places]
        return scores, winners

    def passage_id(self, row: int) -> str:
        """The user's id of a passage."""
        return self.ids[row].as_py()

    def row_of(self, id: str) -> int | None:
        """The row of the passage with an id; None where there is none."""
        row = pc.call_function("index", [self.ids], pc.IndexOptions(pa.scalar(id, self.ids.type))).as_py()
        return row if row >= 0 else None

    def queries(self, passage_rows: Iterable[int]) -> dict[int, tuple[str, ...]]:
        """The queries generated for each passage, by its row, as drawn; empty for most architectures.

        Each distinct one has a view, in this order.
        """
        rows = list(passage_rows)
        if self._queries is None:
            return dict.fromkeys(rows, ())
        return {row: tuple(record["queries"]) for row, record in self._queries.records(rows).items()}

    def kept_rows(self, row: int) -> list[bool]:
        """Which of the rows that a passage was encoded into are in the index, in their order: all but merged views."""
        return [True] * int(self.stored_counts[row]) if self.kept is None else self.kept[row].as_py()

    def view_scores(self, query: np.ndarray, row: int) -> np.ndarray:
        """Scores of all views of one passage [views] float32, which explain why it was found; equal views score equally."""
        return (self.views_of(row).astype(np.float64) @ np.asarray(query, np.float64)).astype(np.float32)

    def views_of(self, row: int) -> np.ndarray:
        """The views of one passage [views, dim] float32."""
        start = self.offsets[row]
        return self.views[start : start + self.view_counts[row]].astype(np.float32)


def _read_faiss(file: Path) -> FaissObject:
    if find_spec("faiss") is None:
        extras = " or ".join(f"'{names.DISTRIBUTION}[{extra}]'" for extra in ("cpu", "gpu"))
        raise InputError(f"{file} needs faiss: pip install {extras}")
    from multiview.index.faiss_library import faiss

    return faiss.read_index(str(file))
