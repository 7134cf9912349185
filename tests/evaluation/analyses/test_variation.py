"""Local variation and perplexity (MVR Eq. 9-10), beside the plain formulas in float64."""

import math
from dataclasses import replace

import numpy as np
import pytest

from multiview.data.questions import Question
from multiview.evaluation.analyses.variation import (
    cosines,
    local_variation,
    perplexity,
    sampled_pairs,
    variation,
)
from tests.fixtures.analysed_model import fresh_views


def test_local_variation_by_hand():
    assert local_variation(np.array([1.0, 4.0, 2.0])) == 4 - 1.5
    assert local_variation(np.array([7.0, 7.0])) == 0


def test_perplexity_by_hand():
    assert perplexity([3, 3, 3]) == 1
    assert perplexity([0, 1, 2, 5]) == pytest.approx(4)
    assert perplexity([0, 0, 1]) == pytest.approx(math.exp(-(2 / 3) * math.log(2 / 3) - math.log(1 / 3) / 3))


def test_cosines_take_zeros():
    np.testing.assert_allclose(cosines(np.array([3.0, 4]), np.array([[6.0, 8], [0, 0]])), [1, 0])


def test_variation_of_a_model_s_gold_passages(padded):
    """Padding views are left out, though this index holds them."""
    subject, views = padded.subject(), fresh_views(padded)
    by_cosine, by_softmax, winners = [], [], {}
    for question, query in zip(padded.questions, subject.queries.astype(np.float64), strict=True):
        vectors, padding = views[question.positive_ids[0]]
        real = vectors[~np.array(padding)]
        f = [float(query @ view) for view in real]
        winners.setdefault(question.positive_ids[0], []).append(int(np.argmax(f)))
        if len(real) < 2:
            continue
        shares = [math.exp(x - max(f)) / sum(math.exp(y - max(f)) for y in f) for x in f]
        cosine = [x / math.dist(query, 0 * query) / math.dist(v, 0 * v) for x, v in zip(f, real, strict=True)]
        for values, kept in ((cosine, by_cosine), (shares, by_softmax)):
            kept.append(max(values) - (sum(values) - max(values)) / (len(values) - 1))
    entropies = [
        -sum(won.count(i) / len(won) * math.log(won.count(i) / len(won)) for i in set(won))
        for won in winners.values()
        if len(won) > 1
    ]
    assert any(entropies) and any(
        len(won) < 2 or e == 0 for won, e in zip(winners.values(), entropies, strict=False)
    )
    findings = variation(subject)
    assert findings.metrics["lv_cosine"] == pytest.approx(np.mean(by_cosine), rel=1e-4)
    assert findings.metrics["lv_softmax"] == pytest.approx(np.mean(by_softmax), rel=1e-3)
    assert findings.metrics["view_ppl"] == pytest.approx(np.mean(np.exp(entropies)))
    asked = [len(won) for won in winners.values() if len(won) > 1]
    assert findings.metrics["view_ppl_questions_per_passage"] == pytest.approx(np.mean(asked))
    assert 0 < len(by_cosine) < len(padded.questions), "passages of one real view have no variation"
    assert findings.tables["variation"].rows.num_rows == len(by_cosine)


def test_whatever_the_arithmetic_of_the_index_these_scores_are_float32(camvr):
    subject, rough = camvr.subject(), camvr.subject()
    rough.encode = camvr.encode.model_copy(update={"compute": "bfloat16"})
    rough.queries = rough.queries + 1
    exact_metrics, rough_metrics = variation(subject).metrics, variation(rough).metrics
    assert rough_metrics == pytest.approx(exact_metrics, rel=1e-6)


def test_whole_passages_are_drawn():
    gold = np.array([4, 2, 4, -1, 2, 9, 4])
    pairs = sampled_pairs(gold, 4, seed=0)
    assert pairs.tolist() == sorted(pairs.tolist()) and -1 not in gold[pairs]
    for passage in set(gold[pairs]):
        assert (gold[pairs] == passage).sum() == (gold == passage).sum()
    assert 4 <= len(pairs) <= 6
    assert sampled_pairs(gold, 100, seed=0).tolist() == [0, 1, 2, 4, 5, 6]
    assert len({tuple(sampled_pairs(gold, 1, seed)) for seed in range(20)}) == 3


def test_one_question_a_passage_has_no_perplexity(camvr):
    subject = camvr.subject()
    seen: set[str] = set()
    rows = [
        i
        for i, q in enumerate(subject.questions)
        if not (q.positive_ids[0] in seen or seen.add(q.positive_ids[0]))
    ]
    asked = [subject.questions[row] for row in rows]
    subject = replace(subject, questions=asked, queries=subject.queries[rows])
    metrics = variation(subject).metrics
    assert set(metrics) == {"lv_cosine", "lv_softmax"}
    assert isinstance(subject.questions[0], Question)
