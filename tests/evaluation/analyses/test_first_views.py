"""The first views alone, and what generated queries have to do with them."""

import numpy as np
import pytest

from multiview.evaluation.analyses.first_views import correlation, first_views
from multiview.evaluation.generated_queries import rouge_l_by_number
from tests.fixtures.searched_views import retrieved_gold, stored_views


def test_the_first_views_are_searched_alone(unpadded):
    camvr = unpadded
    subject, views = camvr.subject(), stored_views(camvr)
    rows = first_views(subject).tables["first_views"].rows.to_pylist()
    most = max(map(len, views.values()))
    assert [row["views"] for row in rows] == list(range(1, most + 1))
    for row in rows:
        has = {id_: held[: row["views"]] for id_, held in views.items() if len(held)}
        recall = retrieved_gold(camvr, has, subject.queries)
        assert {k: row[f"recall_at_{k}"] for k in recall} == pytest.approx(recall)
        ranks = []
        for question, query in zip(camvr.questions, subject.queries.astype(np.float64), strict=True):
            ranking = sorted(has, key=lambda id_: (-(has[id_] @ query).max(), id_))
            ranks.append(ranking.index(question.positive_ids[0]) + 1)
        expected = np.mean([1 / rank if rank <= 10 else 0 for rank in ranks])
        assert row["mrr_at_10"] == pytest.approx(expected)


def test_figures_by_generated_queries(unpadded, monkeypatch):
    subject = unpadded.subject()
    words = ("the city", "the city by the old river", "gold and silver in war or peace")
    queries = {number: words[: number % 4] for number in range(len(subject.index.ids))}
    monkeypatch.setattr(subject.index, "queries", lambda numbers: {n: queries[n] for n in numbers})
    found = first_views(subject)
    ids = subject.index.ids.to_pylist()
    gold = [ids.index(question.positive_ids[0]) for question in subject.questions]
    rows = found.tables["first_views"].rows.to_pylist()
    for row in rows:
        best = [
            max(rouge_l_by_number(question.question, queries[number], 3)[: row["views"]])
            for question, number in zip(subject.questions, gold, strict=True)
            if queries[number]
        ]
        assert row["rouge_l"] == pytest.approx(np.mean(best))
        assert found.metrics[f"rouge_l_at_{row['views']}"] == row["rouge_l"]
    assert found.metrics.get("rouge_l_mrr_correlation") == correlation(rows).get("rouge_l_mrr_correlation")

    levels = found.tables["query_diversity"].rows.to_pylist()
    known = {number for number in gold if len(queries[number]) > 1}
    assert [level["passages"] for level in levels] == [len(known), 0, 0, 0, 0]
    ranks = [ranking.tolist() for ranking in subject.top.passages[:, :10]]
    reciprocal = {number: [] for number in known}
    for number, ranking in zip(gold, ranks, strict=True):
        if number in known:
            reciprocal[number].append(1 / (1 + ranking.index(number)) if number in ranking else 0)
    expected = np.mean([np.mean(values) for values in reciprocal.values()])
    assert levels[0]["mrr_at_10"] == pytest.approx(expected)


def test_the_correlation_of_quality_and_retrieval():
    def rows(*pairs: tuple[float, float]) -> list[dict[str, float]]:
        return [{"rouge_l": rouge, "mrr_at_10": mrr} for rouge, mrr in pairs]

    assert correlation(rows((0.1, 0.2), (0.2, 0.3), (0.3, 0.1))) == pytest.approx(
        {"rouge_l_mrr_correlation": -0.5}
    )
    assert correlation(rows((0.1, 0.2), (0.2, 0.2), (0.3, 0.2))) == {}  # one of them does not vary
    assert correlation(rows((0.1, 0.2), (0.2, 0.3))) == {}
