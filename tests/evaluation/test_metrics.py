"""Each figure equals its plain formula; files of runs and judgments are TREC's own, also for ids with white space."""

import math

import ir_measures
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.evaluation.metrics import (
    first_rank,
    gold_metrics,
    means,
    quoted,
    top_k_accuracy,
    write_qrels,
    write_trec_run,
)
from tests.fixtures.by_trec import by_trec, read_qrels, read_trec_run


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 9), st.integers(1, 30))
def test_accuracy_is_the_share_of_questions_with_a_hit_in_the_top_k(seed, questions, depth):
    hits = np.random.default_rng(seed).random((questions, depth)) < 0.1
    ranks = [1, 5, 20]
    plain = {f"accuracy_at_{k}": sum(any(row[:k]) for row in hits.tolist()) / questions for k in ranks}
    everyone = np.ones(questions, bool)
    assert means(top_k_accuracy(first_rank(hits), everyone, ranks)) == pytest.approx(plain, abs=1e-12)


def test_questions_without_answers_do_not_count():
    values = top_k_accuracy(np.array([1, 0, 0]), np.array([True, True, False]), [1])
    np.testing.assert_array_equal(values["accuracy_at_1"], [1, 0, np.nan])
    assert means(values) == {"accuracy_at_1": 0.5}
    assert means(top_k_accuracy(np.array([0]), np.array([False]), [1])) == {}


@st.composite
def rankings_with_gold(draw):
    names = [f"d{i}" for i in range(15)]
    size = draw(st.integers(1, 5))
    rankings = {f"q{i}": draw(st.permutations(names))[: draw(st.integers(0, 15))] for i in range(size)}
    graded = st.dictionaries(st.sampled_from([*names, "not in the corpus"]), st.integers(1, 3), max_size=3)
    return rankings, {qid: draw(graded) for qid in rankings}


@settings(max_examples=100, deadline=None)
@given(rankings_with_gold())
def test_gold_metrics_are_their_plain_formulas_in_our_order(case):
    rankings, gold = case
    values = gold_metrics(rankings, gold, [1, 5], 15)
    plain = {qid: plain_gold_metrics(rankings[qid], gold[qid]) for qid in gold if gold[qid]}
    assert set(values) == {"recall_at_1", "recall_at_5", "mrr_at_10", "ndcg_at_10"}
    for name, of in values.items():
        expected = [plain[qid][name] if qid in plain else math.nan for qid in gold]
        np.testing.assert_allclose(of, expected, atol=1e-6)
    total = {name: sum(p[name] for p in plain.values()) / len(plain) for name in values if plain}
    assert means(values) == pytest.approx(total, abs=1e-6)


def plain_gold_metrics(ranking: list[str], grades: dict[str, int]) -> dict[str, float]:
    """One question's, in float64; nDCG = Σ grade / log2(rank + 1), over that of the best order."""
    recall = {f"recall_at_{k}": len(set(ranking[:k]) & set(grades)) / len(grades) for k in (1, 5)}
    first = next((rank for rank, name in enumerate(ranking[:10], 1) if name in grades), math.inf)
    found = sum(grades.get(name, 0) / math.log2(rank + 1) for rank, name in enumerate(ranking[:10], 1))
    best = sorted(grades.values(), reverse=True)[:10]
    ideal = sum(grade / math.log2(rank + 1) for rank, grade in enumerate(best, 1))
    return recall | {"mrr_at_10": 1 / first, "ndcg_at_10": found / ideal}


@pytest.mark.parametrize(
    ("depth", "names"),
    [
        (9, {"recall_at_1"}),
        (10, {"recall_at_1", "mrr_at_10", "ndcg_at_10"}),
        (1000, {"recall_at_1", "recall_at_1000", "mrr_at_10", "ndcg_at_10"}),
    ],
)
def test_the_depth_says_which_metrics_there_are(depth, names):
    assert set(gold_metrics({"q": ["a"]}, {"q": {"a": 1}}, [1], depth)) == names


def test_recall_at_1000_counts_to_rank_1000_and_no_further():
    ranking = [f"p{i}" for i in range(1001)]
    values = gold_metrics({"q": ranking}, {"q": {"p999": 1, "p1000": 1}}, [], 1001)
    assert values["recall_at_1000"].tolist() == [0.5]


WORDS = st.text(st.sampled_from("aé% \t\n\u2028\u3000~/"), max_size=5)


@settings(max_examples=100, deadline=None)
@given(WORDS)
def test_quoted_ids_are_one_word_and_come_back(tmp_path_factory, name):
    word = quoted(name)
    assert (word.split() or [""]) == [word] and not any(c.isspace() for c in word)
    path = tmp_path_factory.mktemp("run") / "run.trec"
    if name:
        write_trec_run(path, {name: [(name, 1.5)]})
        assert read_trec_run(path) == {name: [(name, 1.5)]}


def test_an_id_without_white_space_is_written_as_it_is():
    assert [quoted(name) for name in ("sq-12", "a/b:c", "Zürich")] == ["sq-12", "a/b:c", "Zürich"]
    assert [quoted(name) for name in ("a b", "50%")] == ["a%20b", "50%25"]


def test_files_are_trec_s_own_and_come_back(tmp_path):
    run = {"q1": [("b", 2.5), ("a", 0.1)], "q 2": [("c", -1.0)]}
    write_trec_run(tmp_path / "run.trec", run, tag="camvr")
    gold = {"q1": {"a": 2}, "q 2": {"c": 1, "d": 3}}
    write_qrels(tmp_path / "qrels.trec", gold)
    assert (tmp_path / "qrels.trec").read_text() == "q1 0 a 2\nq%202 0 c 1\nq%202 0 d 3\n"
    assert (tmp_path / "run.trec").read_text().splitlines() == [
        "q1 Q0 b 1 2.5 camvr",
        "q1 Q0 a 2 0.100000001 camvr",
        "q%202 Q0 c 1 -1 camvr",
    ]
    read = read_trec_run(tmp_path / "run.trec")
    assert list(read) == ["q1", "q 2"]
    assert np.float32(read["q1"][1][1]) == np.float32(0.1)
    assert read_qrels(tmp_path / "qrels.trec") == gold
    assert by_trec(tmp_path, ir_measures.RR) == pytest.approx((1 / 2 + 1) / 2)
