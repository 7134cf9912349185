"""A question's ranks by BM25, by views, and by both fused."""

from __future__ import annotations

import gc
import weakref

import multiview
from multiview.config import Bm25
from multiview.data.passages import read_passages
from multiview.negatives.bm25 import Bm25Index
from multiview.serving.ranks import CONSTANT, WordIndexes, ranked_passages

QUESTION = "Where was Tesla born?"


def test_the_ranks_are_those_of_the_steps(indexes):
    retriever = multiview.load(indexes.index("camvr"))
    words = WordIndexes()
    assert not words.built(retriever)
    words.build(retriever)
    words.build(retriever)
    assert words.built(retriever)
    alone = Bm25Index(read_passages(indexes.files(indexes.record("split", "passages"))), Bm25(), "english")
    expected = alone.search([QUESTION], 8)
    assert words.hits(retriever, QUESTION, 8) == [hit[:2] for hit in expected.hits(0)]
    (hits,) = retriever.search([QUESTION], k=8)
    ranked = ranked_passages(retriever, words.hits(retriever, QUESTION, 8), hits)
    bm25 = [alone.ids[row].as_py() for row in expected.passages[0]]
    dense = [hit.id for hit in hits]
    assert {each["id"] for each in ranked} == {*bm25, *dense}
    titles = {passage.id: passage.title for passage in retriever.passages()}
    for each in ranked:
        assert each["title"] == titles[each["id"]]
        for method, ids in (("bm25", bm25), ("dense", dense)):
            rank = ids.index(each["id"]) + 1 if each["id"] in ids else None
            assert (each[method] and each[method]["rank"]) == rank
        terms = [1 / (CONSTANT + each[method]["rank"]) for method in ("bm25", "dense") if each[method]]
        assert abs(each["fused"]["score"] - sum(terms)) < 1e-12
    assert [each["fused"]["rank"] for each in ranked] == list(range(1, len(ranked) + 1))
    scores = [each["fused"]["score"] for each in ranked]
    assert scores == sorted(scores, reverse=True)


def test_a_condition_holds_for_bm25_too_and_no_shared_word_is_no_hit(indexes):
    retriever = multiview.load(indexes.index("mvr"))
    words = WordIndexes()
    words.build(retriever)
    among = retriever.among("url is null")
    hits = words.hits(retriever, QUESTION, 100, where="url is null")
    assert hits and all(among[row] for row, _ in hits)
    assert set(hits) <= set(words.hits(retriever, QUESTION, 100))
    assert words.hits(retriever, "xyzzy", 10) == []
    (dense,) = retriever.search(["xyzzy"], k=3)
    ranked = ranked_passages(retriever, [], dense)
    assert [(each["id"], each["bm25"]) for each in ranked] == [(hit.id, None) for hit in dense]


def test_an_index_is_dropped_with_its_retriever(indexes):
    retriever = multiview.load(indexes.index("dpr"))
    words = WordIndexes()
    words.build(retriever)
    index = weakref.ref(words._indexes[retriever])
    del retriever
    gc.collect()
    assert index() is None
