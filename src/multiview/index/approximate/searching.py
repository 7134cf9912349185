"""Top passages of an approximate index: its candidates, scored with all of their stored views."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from multiview.index.approximate import FaissObject, SearchParameters
from multiview.index.approximate.kinds import list_count
from multiview.index.faiss_library import all_of_faiss, faiss
from multiview.index.ranking import Ties, TopPassages, best_first
from multiview.index.stored_views import StoredViews, passages_of_views, score_passages

FETCH_FACTOR = 1.5
"""Views that are fetched at first, as a multiple of the passages wanted. Only speed depends on it."""

FETCHED_AT_ONCE = 1 << 22
"""Most (question, view) pairs held at once: 4 Mi pairs are 50 MB in faiss and about as much here."""


def approximate_top(
    index: FaissObject,
    stored: StoredViews,
    offsets: np.ndarray,
    view_counts: np.ndarray,
    tie_order: Ties,
    queries: np.ndarray,
    k: int,
    parameters: SearchParameters,
    *,
    report_done: Callable[[int], None] = lambda done: None,
) -> TopPassages:
    """The k best of the passages that faiss proposes; of passages that tie, the first by `tie_order`.

    Each question's k + `rerank` first passages are scored by the inner products of all their stored views, summed
    in float64. Scores and winning views are exact; whether all of the k best passages are among the candidates is not
    known. Arguments are as in `exact.ExactSearch`; `view_counts` [p] is the number of each passage's views.
    """
    if k < 1:
        raise ValueError(f"k must be 1 or more, not {k}")
    queries = np.ascontiguousarray(queries, dtype=np.float32)
    if not np.isfinite(queries).all():
        raise ValueError("a question's vector holds a value that is not finite")
    top = TopPassages.empty(len(queries), k, exact=False)

    def rerank(question: int, passages: np.ndarray) -> None:
        query = queries[question, None].astype(np.float64)
        starts, counts, one = offsets[passages], view_counts[passages], np.zeros(len(passages), np.int64)
        scores, winners = score_passages(stored.matrix, starts, counts, query, one)
        scores = scores.astype(np.float32)
        order = best_first(scores, tie_order[passages])[:k]
        count = len(order)
        top.passages[question, :count] = passages[order]
        top.scores[question, :count] = scores[order]
        top.winning_views[question, :count] = winners[order]

    propose(index, offsets, queries, k, parameters, rerank, report_done)
    return top


def propose(
    index: FaissObject,
    offsets: np.ndarray,
    queries: np.ndarray,
    k: int,
    parameters: SearchParameters,
    accept: Callable[[int, np.ndarray], None],
    report_done: Callable[[int], None] = lambda done: None,
) -> None:
    """Calls `accept` with each question and the k + `rerank` passages of the views that faiss finds, best first.

    Where the views that were fetched hold too few passages, twice as many views are fetched. Where the lists that were
    probed hold fewer than k passages, twice as many lists are probed. So k passages are found wherever the corpus has
    them, except that a graph does not lead to every view or list: short vectors have few neighbours by inner product.
    """
    needed = k + parameters.rerank
    lists = list_count(index) or 0
    fetch = min(index.ntotal, math.ceil(FETCH_FACTOR * needed))
    probes = min(parameters.probes or 0, lists)
    pending, settled = np.arange(len(queries)), 0
    while len(pending) and fetch:
        unsettled: list[int] = []
        size = max(1, FETCHED_AT_ONCE // fetch)
        everywhere = probes == lists
        for start in range(0, len(pending), size):
            chunk = pending[start : start + size]
            _, rows = index.search(
                queries[chunk], fetch, params=faiss_parameters(index, probes, parameters.ef_search)
            )
            for question, view_rows in zip(chunk.tolist(), rows, strict=True):
                passages = distinct_passages(view_rows, offsets)
                no_more = view_rows[-1] < 0 or fetch == index.ntotal
                enough = len(passages) >= (k if no_more else needed)
                if not enough and not (no_more and everywhere):
                    unsettled.append(question)
                    continue
                accept(question, passages[:needed])
                settled += 1
            report_done(settled)
        pending = np.asarray(unsettled, dtype=np.int64)
        fetch, probes = min(index.ntotal, 2 * fetch), min(lists, 2 * probes)


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
