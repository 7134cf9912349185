"""How an index ranks passages (`config.Search`): by views, by BM25 or by both, and reranked by a cross-encoder."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from multiview.config import Config, Encode, JsonObject, Search
from multiview.data.passages import COLUMNS, Passage, PassageRows, passages_of
from multiview.index.ranking import Ties, TopPassages, best_first, width
from multiview.index.view_index import SEARCH, ViewIndex, ranking
from multiview.model.base_model.checkpoint import base_fingerprint, staged_base
from multiview.model.base_model.files import RERANKER, model_files

if TYPE_CHECKING:
    from multiview.encoding.cross_encoder import CrossEncoder

BM25_FOLDER, RERANKER_FOLDER = "bm25", "reranker"
"""Folders in an index: of the terms, if it ranks by BM25, and of the cross-encoder, if it reranks."""

CANDIDATES = 100
"""Passages that each ranking passes to a fusion or a reranker, or `search.rerank_depth` if that is more. Such a search
returns no others, so a larger k does not change its first results."""

FUSION_CONSTANT = 60
"""k of reciprocal rank fusion: Σ 1 / (k + rank)."""


@dataclass(frozen=True)
class Ranked:
    """The best passages of some questions, and the rankings that they come from."""

    top: TopPassages
    """[q, k]: its scores are inner products, BM25's, sums of reciprocal ranks or logits: those of the last ranking."""
    view_scores: np.ndarray
    """[q, k] float32: the score of each passage's winning view."""
    parts: dict[str, TopPassages] = field(default_factory=dict)
    """The rankings before any reranking, by name: `dense`, `bm25`, `hybrid`. Empty where views alone rank."""

    def places(self, question: int, passage: int) -> dict[str, tuple[int, float]]:
        """Returns the rank of a passage, counted from 1, and its score in each of `parts` that found it, by name."""
        found = dict[str, tuple[int, float]]()
        for name, part in self.parts.items():
            for at in np.flatnonzero(part.passages[question] == passage):  # at one place at most
                found[name] = int(at) + 1, float(part.scores[question, at])
        return found


class Ranker:
    """Ranks the passages of an index as the index was built to be searched. Any number of threads may search."""

    def __init__(self, index: ViewIndex, folder: Path, corpus: PassageRows, encode: Encode) -> None:
        """`folder` holds the files of `index`, and `corpus` its passages in the same order; a cross-encoder computes
        as `encode` says."""
        self.index, self._corpus = index, corpus
        how = index.header.get(SEARCH, {})
        self.mode: str = how.get("mode", "dense")
        """dense, bm25 or hybrid."""
        self._bm25 = self._reranker = None
        self._rerank_depth: int = how.get("rerank_depth", 0)
        if self.mode != "dense":
            from multiview.index.bm25 import Bm25Index, load_index

            bm25 = load_index(folder / BM25_FOLDER)
            self._bm25 = Bm25Index(bm25, index.ids, how["language"], index.tie_order)
        self.depth = max(CANDIDATES, self._rerank_depth)
        """Number of passages that each ranking passes to a fusion or a reranker."""
        self.name = ranking(index.header)
        """How passages are ranked, such as `hybrid, reranked`; empty where views alone rank."""
        if self._rerank_depth:
            self._reranker = _reranker(folder, encode)
            self._turn = threading.Lock()

    def search(
        self,
        questions: Sequence[str],
        queries: np.ndarray,
        k: int,
        report_done: Callable[[int], None] = lambda done: None,
        among: np.ndarray | None = None,
    ) -> Ranked:
        """Returns the k best passages of each question; with `among` [p] bool, only those in it. Raises ValueError for
        a k below 1. `queries` [q, dim] are the questions' vectors (`ViewIndex.search`)."""
        if k < 1:
            raise ValueError(f"k must be 1 or more, not {k}")
        if not self.name:
            top = self.index.search(queries, k, report_done, among)
            return Ranked(top, top.scores)
        depth = width(self.depth, len(self.index))
        parts: dict[str, TopPassages] = {}
        report_search = (lambda done: None) if self._reranker else report_done
        if self.mode != "bm25":
            parts["dense"] = self.index.search(queries, depth, report_search, among)
        if self._bm25:
            parts["bm25"] = self._bm25.search(questions, depth, report_search, among)
        if self.mode == "hybrid":
            parts["hybrid"] = fused([*parts.values()], self.index.tie_order, 2 * depth)
        *_, top = parts.values()
        if self._reranker:
            top = self._reranked(questions, top, report_done)
        passages, scores = top.passages[:, :k], top.scores[:, :k]
        asked = np.repeat(np.arange(len(passages)), passages.shape[1])
        found = self.index.pair_scores(queries, asked, passages.ravel())
        view_scores, views = (column.reshape(passages.shape) for column in found)
        return Ranked(TopPassages(passages, scores, views, top.exact), view_scores, parts)

    def _reranked(
        self, questions: Sequence[str], top: TopPassages, report_done: Callable[[int], None]
    ) -> TopPassages:
        """Orders each question's first passages by the cross-encoder's logits; the others follow, with lower scores."""
        assert self._reranker
        first, rest = np.split(top.passages, [self._rerank_depth], axis=1)
        logits, total = np.full(first.shape, -np.inf), int((first >= 0).sum())
        with self._turn:
            for done, (place, logit) in enumerate(self._reranker.logits(self._pairs(questions, first)), 1):
                logits[place] = logit
                report_done(done * len(questions) // total)
        order = best_first(logits, self.index.tie_order[first])
        first, logits = (np.take_along_axis(each, order, axis=1) for each in (first, logits))
        behind = logits[:, -1:] - 1 - np.arange(rest.shape[1])
        scores = np.append(logits, np.where(rest >= 0, behind, -np.inf), axis=1)
        passages = np.append(first, rest, axis=1)
        return TopPassages(passages, scores.astype(np.float32), np.minimum(passages, 0), top.exact)

    def _pairs(
        self, questions: Sequence[str], passage_rows: np.ndarray
    ) -> Iterator[tuple[str, Passage, tuple[int, int]]]:
        """Yields each question with each of its passages and the place in `passage_rows` [q, n]; reads each once."""
        flat = np.flatnonzero(passage_rows >= 0)
        flat = flat[np.argsort(passage_rows.ravel()[flat], kind="stable")]
        rows = passage_rows.ravel()[flat]
        for found, table in self._corpus.tables(np.unique(rows), COLUMNS):
            passages = list(passages_of(table))
            some = slice(*np.searchsorted(rows, (found[0], found[-1] + 1)))
            for at, place in zip(np.searchsorted(found, rows[some]), flat[some], strict=True):
                question, column = divmod(int(place), passage_rows.shape[1])
                yield questions[question], passages[at], (question, column)


def fused(rankings: Sequence[TopPassages], ties: Ties, k: int) -> TopPassages:
    """Returns the k best passages of each question by Σ 1 / (60 + rank) over two rankings, with ranks from 1 and equal sums
    by `ties`: reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009)."""
    passages = np.concatenate([ranking.passages for ranking in rankings], axis=1)
    ranks = np.concatenate([1 + np.arange(ranking.passages.shape[1]) for ranking in rankings])
    top = TopPassages.empty(len(passages), k, all(ranking.exact for ranking in rankings))
    for question, rows in enumerate(passages):
        found, places = np.unique(rows[rows >= 0], return_inverse=True)
        sums = np.bincount(places, 1 / (FUSION_CONSTANT + ranks[rows >= 0]), len(found)).round(12)
        best = best_first(sums, ties[found])[:k]
        top.put(question, found[best], sums[best], 0)
    return top


# --- building ----------------------------------------------------------------------------------------


def reranker_fingerprint(settings: Config) -> JsonObject:
    """Returns the fingerprint of `search.rerank`, if it is set: part of the key of an index, which holds a copy."""
    name = settings.search.rerank
    return {"rerank": base_fingerprint(name, RERANKER)} if name else {}


def write_search(folder: Path, settings: Config, passages: Iterable[Passage]) -> JsonObject:
    """Writes what `settings.search` needs into the `folder` of an index; returns the header's entries about it.

    `passages` are read only where BM25 ranks. Raises InputError for a reranker that is not a cross-encoder.
    """
    search = settings.search
    how: JsonObject = {}
    if search.mode != Search().mode:
        from multiview.index.bm25 import index_of

        (folder / BM25_FOLDER).mkdir()
        if index := index_of(passages, settings.bm25, settings.corpus.language):
            index.save(folder / BM25_FOLDER)
        how |= {"mode": search.mode, "language": settings.corpus.language}
    if search.rerank:
        with staged_base(search.rerank, RERANKER) as base:
            (folder / RERANKER_FOLDER).mkdir()
            for name in model_files([file.name for file in base.iterdir()]):
                shutil.copyfile(base / name, folder / RERANKER_FOLDER / name)
        _reranker(folder, settings.encode.model_copy(update={"device": "cpu"}))
        how["rerank_depth"] = search.rerank_depth
    return {SEARCH: how} if how else {}


def _reranker(folder: Path, encode: Encode) -> CrossEncoder:
    from multiview.encoding.cross_encoder import CrossEncoder

    return CrossEncoder(folder / RERANKER_FOLDER, encode, "the index's reranker", RERANKER)
