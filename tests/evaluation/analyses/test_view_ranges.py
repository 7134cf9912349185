"""Each view alone and the first views, beside plain float64, and what generated queries have to do with them."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from multiview.data.answers import has_answer
from multiview.evaluation.analyses.view_ranges import (
    correlation,
    each_view,
    first_views,
    gold_recall,
    mean_reciprocal_rank,
)
from tests.fixtures.analysed_model import WORDS, AnalysedModel
from tests.fixtures.plain_queries import plain_bleu_4, plain_rouge_l
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


@pytest.fixture(scope="module")
def dual_cross(tmp_path_factory):
    """Five queries per passage, of which some repeat others; every seventh passage has none."""
    rng = np.random.default_rng(3)
    queries = {}
    for number in range(30):
        kinds = [" ".join(rng.choice(WORDS, rng.integers(2, 7))) for _ in range(1 + number % 5)]
        queries[f"p{number:02d}"] = tuple(rng.choice(kinds, 5).tolist()) if number % 7 else ()
    folder = tmp_path_factory.mktemp("dual_cross")
    return AnalysedModel(folder, queries=queries, architecture="dual-cross", tied=True), queries


def test_figures_by_generated_queries(dual_cross):
    """Section 5 of the Dual Cross Encoder in plain float64: views are distinct queries, diversity is of queries as drawn."""
    analysed, queries = dual_cross
    subject = analysed.subject()
    found = first_views(subject)
    asked = [
        (question.question.rstrip("?"), question.positive_ids[0])
        for question in analysed.questions
        if queries[question.positive_ids[0]]
    ]
    best = {}
    for row in found.tables["first_views"].rows.to_pylist():
        k = row["views"]
        best[k] = [
            max(plain_rouge_l(text, query) for query in list(dict.fromkeys(queries[gold]))[:k])
            for text, gold in asked
        ]
        assert row["rouge_l"] == pytest.approx(np.mean(best[k]))
        assert found.metrics[f"rouge_l/first_{k}_views"] == row["rouge_l"]
    rows = found.tables["first_views"].rows.to_pylist()
    assert found.metrics.get("rouge_l_mrr_correlation") == correlation(rows).get("rouge_l_mrr_correlation")

    ids = subject.index.ids.to_pylist()
    rankings = dict(zip([question.qid for question in analysed.questions], subject.top.passages, strict=True))
    members: dict[str, list[tuple[float, float]]] = {}
    with_queries = [question for question in analysed.questions if queries[question.positive_ids[0]]]
    for question, quality in zip(with_queries, best[len(rows)], strict=True):
        gold = question.positive_ids[0]
        top = [ids[row] for row in rankings[question.qid][:10]]
        members.setdefault(gold, []).append((quality, 1 / (1 + top.index(gold)) if gold in top else 0))
    bleus = {
        gold: np.mean([plain_bleu_4([*drawn[:i], *drawn[i + 1 :]], query) for i, query in enumerate(drawn)])
        for gold, drawn in queries.items()
        if gold in members
    }
    assert found.metrics["rouge_l"] == rows[-1]["rouge_l"]
    assert found.metrics["self_bleu_4"] == pytest.approx(np.mean(list(bleus.values())))
    assert any(len(set(queries[gold])) == 1 for gold in bleus), "one query drawn five times is rated too"
    for number, level in enumerate(found.tables["query_diversity"].rows.to_pylist()):
        inside = [gold for gold, bleu in bleus.items() if min(4, int(bleu * 5 + 1e-9)) == number]
        assert level["passages"] == len(inside)
        if inside:
            figures = np.mean([np.mean(members[gold], axis=0) for gold in inside], axis=0)
            assert [level["rouge_l"], level["mrr_at_10"]] == pytest.approx(figures.tolist())
            assert level["self_bleu_4"] == pytest.approx(np.mean([bleus[gold] for gold in inside]))


def test_the_correlation_of_quality_and_retrieval():
    def rows(*pairs: tuple[float, float]) -> list[dict[str, float]]:
        return [{"rouge_l": rouge, "mrr_at_10": mrr} for rouge, mrr in pairs]

    assert correlation(rows((0.1, 0.2), (0.2, 0.3), (0.3, 0.1))) == pytest.approx(
        {"rouge_l_mrr_correlation": -0.5}
    )
    assert correlation(rows((0.1, 0.2), (0.2, 0.2), (0.3, 0.2))) == {}  # one of them does not vary
    assert correlation(rows((0.1, 0.2), (0.2, 0.3))) == {}


def test_a_corpus_of_fewer_than_ten_passages_has_an_mrr_at_10(unpadded):
    gold = np.array([[False, True, False]] * len(unpadded.questions))
    assert mean_reciprocal_rank(gold, unpadded.subject()) == {"mrr_at_10": 0.5}
    assert mean_reciprocal_rank(gold, unpadded.subject(depth=3, at=[3])) == {}


def test_questions_without_a_positive_have_neither_recall_nor_rank():
    """Which have answers alone, beside others."""
    questions = [SimpleNamespace(positive_ids=ids) for ids in (("a", "b"), (), ("c",), ())]
    settings = SimpleNamespace(depth=10)
    given: Any = SimpleNamespace(questions=questions, cuts=[1, 3], settings=settings)
    gold = np.array([[True, False, False], [False] * 3, [False, True, False], [False] * 3])
    assert gold_recall(gold, given) == {"recall_at_1": 0.25, "recall_at_3": 0.75}
    assert mean_reciprocal_rank(gold, given) == {"mrr_at_10": 0.75}


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
        assert row["share_of_passages"] == len(has) / len(camvr.passages)
        for k in (1, 3, 5):
            found = []
            for question, query in zip(camvr.questions, subject.queries.astype(np.float64), strict=True):
                best = sorted(has, key=lambda id_: (-(has[id_] @ query).max(), id_))[:k]
                found.append(any(has_answer(texts[id_], question.answers) for id_ in best))
            expected = sum(found) / sum(bool(question.answers) for question in camvr.questions)
            assert row[f"accuracy_at_{k}"] == pytest.approx(expected)
            if view < most:
                assert findings.metrics[f"share_of_passages/view_{view + 1}"] == row["share_of_passages"]
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
    assert {row["share_of_passages"] for row in rows} == {1.0}


def test_a_corpus_smaller_than_the_depth_has_all_figures(unpadded):
    most = len(unpadded.passages)
    figures = [each_view(unpadded.subject(depth=depth, at=[1, depth])).metrics for depth in (most, 10**5)]
    whole, deep = (
        {name.replace("100000", str(most)): value for name, value in each.items()} for each in figures
    )
    assert deep == whole and f"recall_at_{most}/view_1" in deep
