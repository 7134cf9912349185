"""A question's ranks by BM25, by the index's views, and by both fused."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from multiview.config import Bm25, Comparison
from multiview.evaluation.fusion import Ranking, reciprocal_rank_fusion
from multiview.negatives.bm25 import Bm25Index
from multiview.serving.hits import Hit
from multiview.serving.retriever import Retriever

CONSTANT = Comparison().fusion_constant
"""k of reciprocal rank fusion: Σ 1 / (k + rank)."""


class WordIndexes:
    """BM25 indexes over the passages of retrievers, each built when first asked for and dropped with its retriever."""

    def __init__(self) -> None:
        self._indexes: WeakKeyDictionary[Retriever, Bm25Index] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def build(self, retriever: Retriever) -> None:
        """Builds the index over all passages, with the settings and the words of the step `bm25-negatives`."""
        with self._lock:
            known = retriever in self._indexes
        if not known:
            index = Bm25Index(retriever.passages(), Bm25(), retriever.language)
            with self._lock:
                self._indexes[retriever] = index

    def built(self, retriever: Retriever) -> bool:
        """Returns whether there is an index over the retriever's passages."""
        with self._lock:
            return retriever in self._indexes

    def hits(
        self, retriever: Retriever, question: str, k: int, where: str | None = None
    ) -> list[tuple[int, float]]:
        """Returns rows and scores of the k best passages that share a word with the question; with `where`, of those
        that satisfy it."""
        with self._lock:
            index = self._indexes[retriever]
        among = None if where is None else retriever.among(where)
        top = index.search([question], k, among=among)
        return [(row, score) for row, score, _ in top.hits(0)]


def ranked_passages(
    retriever: Retriever, bm25: Sequence[tuple[int, float]], hits: Sequence[Hit]
) -> list[dict[str, Any]]:
    """Returns the passages that BM25 (row, score) or the views (hits) found, in the order of the fused ranking.

    Each is `{"id", "title", "bm25", "dense", "fused"}`, where a method has `{"rank", "score"}`, or None for a passage
    that it did not find.
    """
    titles = retriever.titles([row for row, _ in bm25])
    title_of = {retriever.index.passage_id(row): title for row, title in titles.items()}
    title_of |= {hit.id: hit.title for hit in hits}
    words: Ranking = [(retriever.index.passage_id(row), score) for row, score in bm25]
    dense: Ranking = [(hit.id, hit.score) for hit in hits]
    fused = reciprocal_rank_fusion([words, dense], CONSTANT, len(words) + len(dense))
    found = {
        method: {id: {"rank": rank, "score": score} for rank, (id, score) in enumerate(ranking, 1)}
        for method, ranking in (("bm25", words), ("dense", dense), ("fused", fused))
    }
    return [
        {"id": id, "title": title_of[id]} | {method: places.get(id) for method, places in found.items()}
        for id, _ in fused
    ]
