"""Each view alone, beside plain float64."""

import numpy as np
import pytest

from multiview.data.answers import has_answer
from multiview.evaluation.analyses.each_view import each_view
from multiview.evaluation.analyses.subject import NotApplicable
from tests.fixtures.analysed_model import DEPTH, hand_index
from tests.fixtures.searched_views import retrieved_gold, stored_views


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


def test_one_view_alone_is_no_analysis(dpr):
    with pytest.raises(NotApplicable, match="one view"):
        each_view(dpr.subject(depth=DEPTH))


def test_a_corpus_smaller_than_the_depth_has_all_figures(unpadded):
    most = len(unpadded.passages)
    figures = [each_view(unpadded.subject(depth=depth, at=[1, depth])).metrics for depth in (most, 10**5)]
    whole, deep = (
        {name.replace("100000", str(most)): value for name, value in each.items()} for each in figures
    )
    assert deep == whole and f"recall_at_{most}/view_1" in deep
