"""Top passages of an approximate index: its candidates, scored with all of their stored views."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from multiview.config import JsonObject
from multiview.index.approximate import FaissObject
from multiview.index.faiss_library import all_of_faiss, faiss, list_count
from multiview.index.ranking import Ties, TopPassages, best_first, finite_questions
from multiview.index.stored_views import passages_of_views, score_passages

FETCH_FACTOR = 1.5
"""Views that are fetched at first, as a multiple of the passages wanted. Only speed depends on it."""

FETCHED_AT_ONCE = 1 << 22
"""Most (question, view) pairs held at once: 4 Mi pairs are 50 MB in faiss and about as much here."""


@dataclass(frozen=True)
class ApproximateSearch:
    """Approximate search among the views of some passages, which are stored as for an `ExactSearch`."""

    index: FaissObject
    header: JsonObject
    """The index's, whose `probes`, `ef_search` and `rerank` are the effort of a search (`kinds.description`)."""
    views: np.ndarray
    offsets: np.ndarray
    view_counts: np.ndarray
    """[p]: number of views of each passage."""
    tie_order: Ties

    def top(self, queries: np.ndarray, k: int, report_done: Callable[[int], None]) -> TopPassages:
        """The k best of the passages that faiss proposes; of passages that tie, the first by `tie_order`.

        Each question's k + `rerank` first passages are scored by all their stored views in float64, so that scores and
        winning views are exact. Raises ValueError as an exact search does.
        """
        queries = finite_questions(queries, k)
        top = TopPassages.empty(len(queries), k, exact=False)
        for done, (question, passages) in enumerate(self._proposals(queries, k), 1):
            starts, counts = self.offsets[passages], self.view_counts[passages]
            asked = queries[question, None], np.zeros_like(passages)
            scores, winners = score_passages(self.views, starts, counts, *asked)
            order = best_first(scores, self.tie_order[passages])[:k]
            top.put(question, passages[order], scores[order], winners[order])
            report_done(done)
        return top

    def _proposals(self, queries: np.ndarray, k: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yields each question and the k + `rerank` passages of the views that faiss finds, best first.

        While these are too few, twice as many views are fetched and lists probed: k passages are found if there are k.
        A graph may miss some, as it does not lead to every view: short ones have few neighbours by inner product.
        """
        index, header = self.index, self.header
        needed, views = k + header["rerank"], len(self.views)
        lists = list_count(index) or 0
        fetch = min(views, math.ceil(FETCH_FACTOR * needed))
        probes = min(header["probes"] or 0, lists)
        pending = np.arange(len(queries))
        while len(pending) and fetch:
            unsettled: list[int] = []
            size = max(1, FETCHED_AT_ONCE // fetch)
            effort = faiss_parameters(index, probes, header["ef_search"])
            for start in range(0, len(pending), size):
                chunk = pending[start : start + size]
                _, rows = index.search(queries[chunk], fetch, params=effort)
                for question, view_rows in zip(chunk.tolist(), rows, strict=True):
                    passages = distinct_passages(view_rows, self.offsets)
                    no_more = view_rows[-1] < 0 or fetch == views
                    enough = len(passages) >= (k if no_more else needed)
                    if enough or (no_more and probes == lists):
                        yield question, passages[:needed]
                    else:
                        unsettled.append(question)
            pending = np.asarray(unsettled, dtype=np.int64)
            fetch, probes = min(views, 2 * fetch), min(lists, 2 * probes)


def distinct_passages(view_rows: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The distinct passages of some views, in the order of their first view; rows of -1 (faiss had no more) are dropped."""
    passages = passages_of_views(view_rows[view_rows >= 0], offsets)
    _, first = np.unique(passages, return_index=True)
    return passages[np.sort(first)]


def faiss_parameters(index: FaissObject, probes: int, ef_search: int) -> faiss.SearchParameters | None:
    """faiss's parameters for a single search, which do not affect other threads; none where a kind has no parameters."""
    index = faiss.downcast_index(index)
    if isinstance(index, faiss.IndexPreTransform):
        inner = faiss_parameters(index.index, probes, ef_search)
        return inner and all_of_faiss.SearchParametersPreTransform(index_params=inner)
    if isinstance(index, faiss.IndexRefine):
        inner = faiss_parameters(index.base_index, probes, ef_search)
        return inner and all_of_faiss.IndexRefineSearchParameters(
            k_factor=index.k_factor, base_index_params=inner
        )
    if isinstance(index, faiss.IndexIVF):
        return all_of_faiss.SearchParametersIVF(nprobe=probes)
    if isinstance(index, faiss.IndexHNSW):
        return all_of_faiss.SearchParametersHNSW(efSearch=ef_search)
    return None
