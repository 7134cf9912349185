"""Which views win, and how much they are alike."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from multiview.evaluation.analyses.analysis_input import NotApplicable
from multiview.evaluation.analyses.attention import cosine
from multiview.evaluation.analyses.view_ranges import gold_winners, usage
from multiview.model.layouts import LAYOUTS
from tests.fixtures.analysed_model import hand_index
from tests.fixtures.searched_views import stored_views


def test_usage_counts_the_winners_of_the_first_and_of_the_gold_passage(camvr):
    subject, views = camvr.subject(), stored_views(camvr)
    first, gold = np.zeros(4), np.zeros(4)
    for question, query in zip(camvr.questions, subject.queries.astype(np.float64), strict=True):
        best = min(views, key=lambda id_: (-(views[id_] @ query).max(), id_))
        first[(views[best] @ query).argmax()] += 1
        gold[(views[question.positive_ids[0]] @ query).argmax()] += 1
    table = usage(subject).tables["usage"].rows.to_pydict()
    assert (table["view"], table["top_1"], table["gold"]) == ([1, 2, 3, 4], first.tolist(), gold.tolist())
    assert len(camvr.questions) == first.sum() and not np.array_equal(first, gold)
    assert table["share_of_passages"] == [
        sum(len(held) > view for held in views.values()) / len(views) for view in range(4)
    ]
    metrics = usage(subject).metrics
    assert metrics["share_of_top_1/view_2"] == first[1] / first.sum()
    assert metrics["share_of_gold/view_1"] == gold[0] / gold.sum()


def test_of_equal_views_the_first_wins_however_many_they_are():
    rng = np.random.default_rng(0)
    for views in range(1, 10):
        equal = [np.repeat(rng.normal(size=(1, 768)), views, axis=0) for _ in range(30)]
        index = hand_index(equal, [f"p{number:02}" for number in range(30)])
        queries, gold = rng.normal(size=(30, 768)).astype(np.float32), np.arange(30)
        assert len({*index.view_scores(queries[0], 0)}) == 1
        given: Any = SimpleNamespace(index=index, queries=queries, gold=gold)
        assert gold_winners(given).tolist() == [0] * 30


def test_cosines_are_means_over_the_passages_that_have_both_views(camvr, monkeypatch):
    monkeypatch.setattr("multiview.evaluation.analyses.matrices.PASSAGES_AT_ONCE", 7)
    expected = np.full((4, 4), np.nan)
    for i in range(4):
        for j in range(4):
            values = [
                v[i] @ v[j] / np.linalg.norm(v[i]) / np.linalg.norm(v[j])
                for v in stored_views(camvr).values()
                if len(v) > max(i, j)
            ]
            expected[i, j] = np.mean(values)
    findings = cosine(camvr.subject())
    rows = findings.tables["cosine"].rows.to_pylist()
    np.testing.assert_allclose([[row[f"view_{j}"] for j in range(1, 5)] for row in rows], expected, rtol=1e-6)
    others = expected[~np.eye(4, dtype=bool)]
    assert findings.metrics["view_cosine"] == pytest.approx(others.mean())
    assert findings.metrics["view_cosine_min"] == pytest.approx(others.min())


def test_cosines_of_the_first_views_are_read_from_all(camvr):
    given = camvr.subject()
    first = replace(given, index=given.index.first_views(2, LAYOUTS["meta"]))
    whole, cut = (cosine(each).tables["cosine"].rows.to_pydict() for each in (given, first))
    assert cut == {name: whole[name][:2] for name in ("view", "view_1", "view_2")}


def test_views_that_were_merged_are_not_compared_by_their_position(camvr):
    given = camvr.subject()
    given.index.kept = pa.array([[True]] * len(given.index))
    for analysis in (usage, cosine):
        with pytest.raises(NotApplicable, match="index.merge_views"):
            analysis(given)
