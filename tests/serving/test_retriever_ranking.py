"""Hybrid search and reranking: what is measured, what is served, and the plain formula."""

import json
from fractions import Fraction

import numpy as np
import pytest

import multiview
from multiview.artifacts.record import load_record
from multiview.cli.export import app as export_app
from multiview.evaluation.files import RUN_FILE
from multiview.index import ranker
from multiview.serving.hits import answer_fields, as_json
from multiview.serving.named_indexes import kind_of
from tests.fixtures.answering_server import answering, of_one
from tests.fixtures.by_trec import read_trec_run
from tests.fixtures.cross_encoders import classifier, plain_logits
from tests.fixtures.system_indexes import make

K, DEPTH = 100, 7
SYSTEMS = ("dense", "bm25-only", "hybrid", "compact", "reranked", "both")
WHERE = "url is not null"


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    return classifier(tmp_path_factory.mktemp("judge"))


@pytest.fixture(scope="module")
def indexes(tmp_path_factory, judge):
    rerank = {"rerank": str(judge), "rerank_depth": DEPTH}
    systems = {
        "dense": {},
        "bm25-only": {"search": {"mode": "bm25"}},
        "hybrid": {"search": {"mode": "hybrid"}},
        "compact": {"index": {"kind": "compact"}, "search": {"mode": "hybrid"}},
        "reranked": {"search": rerank},
        "both": {"search": {"mode": "hybrid", **rerank}},
    }
    return make(tmp_path_factory.mktemp("systems"), systems, fusion=["dense"])


@pytest.fixture(scope="module")
def retrievers(indexes):
    return {system: multiview.load(indexes.index(system)) for system in SYSTEMS}


def ids(hits):
    return [hit.id for hit in hits]


def reciprocal(*rankings):
    """The ids by Σ 1 / (60 + rank), ties by id, and the sums."""
    sums = {
        name: sum(Fraction(1, 61 + ranking.index(name)) for ranking in rankings if name in ranking)
        for name in set().union(*rankings)
    }
    return sorted(sums, key=lambda name: (-sums[name], name)), sums


@pytest.mark.parametrize("where", [None, WHERE])
def test_the_hybrid_ranking_is_the_sum_of_reciprocal_ranks_of_both(indexes, retrievers, where):
    found = {name: each.search(indexes.questions, K, where=where) for name, each in retrievers.items()}
    moved = 0
    for number in range(len(indexes.questions)):
        dense, words, hybrid, compact = (
            found[name][number] for name in ("dense", "bm25-only", "hybrid", "compact")
        )
        expected, sums = reciprocal(ids(dense), ids(words))
        assert ids(hybrid) == ids(compact) == expected
        np.testing.assert_allclose(
            [hit.score for hit in hybrid], [float(sums[hit.id]) for hit in hybrid], 1e-6
        )
        views = {hit.id: hit.best for hit in dense}
        for hit in (*hybrid, *words):
            assert hit.best == views[hit.id], "the snippet is the one that suits the question best"
            assert where is None or hit.columns["url"] is not None
        moved += ids(dense)[:3] != expected[:3]
    assert moved, "or nothing was compared"


def test_what_is_measured_is_what_is_served_rank_by_rank(indexes, retrievers):
    """The rows of the comparison, its fused one too, beside `search`, over all dev questions."""
    rows = {name: f"{name}/round-0/evaluate" for name in retrievers} | {"fused": "dense-bm25/evaluate"}
    runs = {
        name: read_trec_run(indexes.files(indexes.record(path, "evaluation")) / RUN_FILE)
        for name, path in rows.items()
    }
    runs["bm25"] = read_trec_run(indexes.files(indexes.record("bm25/evaluate", "evaluation")) / RUN_FILE)
    found = {
        name: [ids(hits) for hits in each.search(indexes.questions, 20)] for name, each in retrievers.items()
    }
    for name in retrievers:
        assert [[passage for passage, _ in ranking] for ranking in runs[name].values()] == found[name]
    assert runs["fused"] == runs["hybrid"] and runs["bm25"] == runs["bm25-only"]


def test_a_cross_encoder_orders_the_first_passages_and_the_others_follow(indexes, retrievers, judge):
    for before, after in (("dense", "reranked"), ("hybrid", "both")):
        found = [retrievers[name].search(indexes.questions[:4], 20) for name in (before, after)]
        for question, old, new in zip(indexes.questions, *found, strict=False):
            logits = plain_logits(
                judge, [(question, f"{hit.title} {hit.text}".strip()) for hit in old[:DEPTH]]
            )
            assert np.ptp(logits) > 0.1
            order = sorted(range(DEPTH), key=lambda place: (-round(logits[place], 3), old[place].id))
            assert ids(new) == [old[place].id for place in order] + ids(old[DEPTH:])
            np.testing.assert_allclose([hit.score for hit in new[:DEPTH]], sorted(logits)[::-1], atol=1e-3)
            scores = [hit.score for hit in new]
            rest = scores[DEPTH - 1 :]
            assert scores == sorted(scores, reverse=True) and len(set(rest)) == len(rest)


def test_as_many_are_reranked_as_the_setting_says(indexes, retrievers, monkeypatch):
    monkeypatch.setattr(ranker, "CANDIDATES", 2)
    few, many = (retrievers["reranked"].search(indexes.questions[:4], k) for k in (1, 9))
    assert [ids(hits) for hits in few] == [ids(hits)[:1] for hits in many]


@pytest.mark.parametrize("system", ["dense", "both"])
def test_an_export_says_that_it_ranks_otherwise(indexes, retrievers, system, tmp_path, capsys):
    """An export has views alone."""
    ranking = retrievers[system].ranking
    warning = f"warning: the index ranks by {ranking}; its export by views alone\n"
    for words in ["views", "--out", str(tmp_path / "views")], ["qdrant", "--path", str(tmp_path / "qdrant")]:
        with pytest.raises(SystemExit, match="^0$"):
            export_app([*words, "--index", indexes.index(system)])
        assert capsys.readouterr().err == (warning if ranking else "")
    manifest = json.loads((tmp_path / "views/export.json").read_text())
    assert manifest.get("ranking", "") == ranking


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_list_of_indexes_says_how_each_is_built_and_ranks(indexes, retrievers, system):
    """By its record alone, as `GET /indexes` does."""
    words = ["compact"] * (system == "compact") + [retrievers[system].ranking]
    assert kind_of(load_record(indexes.index(system))[1]) == ", ".join(filter(None, words))


def test_answers_explain_the_ranks_and_do_not_depend_on_other_questions(indexes, retrievers):
    both = retrievers["both"]
    assert both.ranking == "hybrid, reranked" and retrievers["dense"].ranking == ""
    together = both.search(indexes.questions, 5, explain=True)
    for question, hits in zip(indexes.questions, together, strict=True):
        assert both.search([question], 5, explain=True) == [hits]
        for part, name in (("dense", "dense"), ("bm25", "bm25-only"), ("hybrid", "hybrid")):
            places = {
                hit.id: (rank, hit.score)
                for rank, hit in enumerate(retrievers[name].search([question], K)[0], 1)
            }
            given = {
                hit.id: (hit.ranks[part].rank, hit.ranks[part].score) for hit in hits if part in hit.ranks
            }
            assert given == {hit.id: places[hit.id] for hit in hits if hit.id in places}
    assert all(not hit.ranks for hit in retrievers["dense"].search(indexes.questions[:1], explain=True)[0])


def test_a_server_gives_the_same_answers(indexes, retrievers):
    for name in ("hybrid", "both"):
        body = {"questions": indexes.questions, "k": 6, "explain": True, "where": WHERE}
        with answering(of_one(retrievers[name])) as client:
            answers = client.post("/search", body).json()["answers"]
        hits = retrievers[name].search(indexes.questions, 6, explain=True, where=WHERE)
        pairs = zip(indexes.questions, hits, strict=True)
        assert answers == json.loads(as_json([answer_fields(*pair, True) for pair in pairs]))
        for answer, ranked in zip(answers, hits, strict=True):
            given = [(hit["rank"], hit["id"], hit["score"], hit["view"]) for hit in answer["hits"]]
            assert given == [(rank, hit.id, hit.score, hit.best.number) for rank, hit in enumerate(ranked, 1)]
