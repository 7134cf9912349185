"""Each view alone, usage of views and their cosines, beside plain float64."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from multiview.data.answers import has_answer
from multiview.evaluation.analyses.each_view import each_view
from multiview.evaluation.analyses.first_views import correlation, first_views
from multiview.evaluation.analyses.matrices import PairMeans, off_diagonal
from multiview.evaluation.analyses.subject import NotApplicable
from multiview.evaluation.analyses.usage import cosine, histogram, mean_cosines, usage
from multiview.generation.metrics import rouge_l_by_number
from tests.fixtures.analysed_model import DEPTH, hand_index


def stored_views(analysed) -> dict[str, np.ndarray]:
    """The views as the index holds them, in float64."""
    table = pq.read_table(analysed.folder / "embeddings" / "rows.parquet").to_pylist()
    views = (
        np.fromfile(analysed.folder / "embeddings" / "views.f16", "<f2").reshape(-1, 64).astype(np.float64)
    )
    return {row["id"]: views[row["offset"] : row["offset"] + row["views"]] for row in table}


def retrieved_gold(analysed, views: dict[str, np.ndarray], queries: np.ndarray) -> dict[int, float]:
    """Recall of the gold passage at 1, 3 and 5, by the best of some views."""
    ranks = []
    for question, query in zip(analysed.questions, queries.astype(np.float64), strict=True):
        ranking = sorted(views, key=lambda id_: (-(views[id_] @ query).max(), id_))
        gold = question.positive_ids[0]
        ranks.append(ranking.index(gold) if gold in ranking else 99)
    return {k: float(np.mean([rank < k for rank in ranks])) for k in (1, 3, 5)}


@pytest.mark.parametrize("seed", range(5))
def test_a_view_alone_is_searched_exactly_whatever_views_passages_have_and_however_they_tie(seed):
    rng = np.random.default_rng(seed)
    views = [rng.integers(-1, 2, (rng.integers(0, 4), 3)) for _ in range(40)]
    ids = [f"p{i}" for i in rng.permutation(40)]
    queries = rng.integers(-1, 2, (6, 3))
    index = hand_index(views, ids)
    for view, top in enumerate(index.search_views([(view, view + 1) for view in range(3)], queries, 10)):
        has = [number for number in range(40) if len(views[number]) > view]
        for row, query in enumerate(queries):
            order = sorted(has, key=lambda number: (-int(views[number][view] @ query), ids[number]))[:10]
            assert top.passages[row].tolist() == order + [-1] * (10 - len(order))
            assert top.scores[row, : len(order)].tolist() == [views[n][view] @ query for n in order]
            assert set(top.winning_views[row, : len(order)].tolist()) <= {view}


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


def test_accuracy_of_each_view(unpadded):
    camvr = unpadded
    subject, views = camvr.subject(), stored_views(camvr)
    texts = {passage.id: passage.text for passage in camvr.passages}
    findings = each_view(subject)
    most = max(map(len, views.values()))
    rows = findings.tables["each_view"].rows.to_pylist()
    assert [row["view"] for row in rows] == [*range(1, most + 1), None]
    assert len({row["passages"] for row in rows}) > 1, "padding views are not in this index"
    assert not any(row["padding_views"] for row in rows)
    for view, row in enumerate(rows):
        has = {id_: held[view : view + 1] if view < most else held for id_, held in views.items()}
        has = {id_: held for id_, held in has.items() if len(held)}
        assert row["passages"] == len(has)
        for k in (1, 3, 5):
            found = []
            for question, query in zip(camvr.questions, subject.queries.astype(np.float64), strict=True):
                best = sorted(has, key=lambda id_: (-(has[id_] @ query).max(), id_))[:k]
                found.append(any(has_answer(texts[id_], question.answers) for id_ in best))
            expected = sum(found) / sum(bool(question.answers) for question in camvr.questions)
            assert row[f"accuracy_at_{k}"] == pytest.approx(expected)
            if view < most:
                assert findings.metrics[f"accuracy_at_{k}/view_{view + 1}"] == row[f"accuracy_at_{k}"]
    whole = retrieved_gold(camvr, views, subject.queries)
    alone = {id_: held[2:3] for id_, held in views.items() if len(held) > 2}
    for k in (1, 3, 5):
        assert rows[-1][f"recall_at_{k}"] == pytest.approx(whole[k])
        assert rows[2][f"recall_at_{k}"] == pytest.approx(retrieved_gold(camvr, alone, subject.queries)[k])
    assert "accuracy_at_100" not in rows[0], "beyond the depth"


def test_the_table_says_that_padding_views_are_indexed(padded):
    rows = each_view(padded.subject()).tables["each_view"].rows.to_pylist()
    assert {row["padding_views"] for row in rows} == {True}
    assert {row["passages"] for row in rows} == {len(padded.passages)}


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
    metrics = usage(subject).metrics
    assert metrics["share_of_top_1/view_2"] == first[1] / first.sum()
    assert metrics["share_of_gold/view_1"] == gold[0] / gold.sum()
    assert histogram(np.array([2, 0, 2]), 4).tolist() == [1, 0, 2, 0]


def test_cosines_are_means_over_the_passages_that_have_both_views(camvr, monkeypatch):
    monkeypatch.setattr("multiview.evaluation.analyses.usage.PASSAGES_AT_ONCE", 7)
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


def test_cosines_by_hand():
    index = hand_index(
        [np.array([[3.0, 0], [0, 2]]), np.array([[1.0, 0], [5, 0]]), np.array([[0.0, 0]])], ["a", "b", "c"]
    )
    means = mean_cosines(index, 3)
    assert means[0, 1] == means[1, 0] == 0.5  # 0 and 1
    assert means[1, 1] == 1 and means[0, 0] == pytest.approx(2 / 3), "a vector of zeros is like nothing"
    assert np.isnan(means[:, 2]).all()


def test_pairs_that_no_passage_has_count_for_nothing():
    means = PairMeans(3)
    means.add(np.array([[[1.0, 4, 9], [2, 1, 9], [9, 9, 9]]]), np.array([[True, True, False]]))
    means.add(np.array([[[3.0, 9, 9], [9, 9, 9], [9, 9, 9]]]), np.array([[True, False, False]]))
    assert means.means()[0, 0] == 2 and np.isnan(means.means()[2, 2])
    assert off_diagonal("d", means.means()) == {"d": 3, "d_min": 2, "d_max": 4}
    assert off_diagonal("d", np.ones((1, 1))) == {}


def test_one_view_has_no_such_analysis(dpr):
    for analysis in (each_view, usage, cosine):
        with pytest.raises(NotApplicable, match="one view"):
            analysis(dpr.subject(depth=DEPTH))
