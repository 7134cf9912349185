"""Answer-view accuracy (CAMVR Eq. 15)."""

from types import SimpleNamespace

import numpy as np
import pytest

from multiview.config import Evaluation
from multiview.data.answers import find_answers, has_answer
from multiview.data.passages import Passage
from multiview.evaluation.analyses.analysis_input import NotApplicable
from multiview.evaluation.analyses.answers import answer_view, answer_view_hits
from tests.fixtures.analysed_model import hand_index, hand_subject, retrieved
from tests.fixtures.snippet_views import PASSAGE, Snippets, ask


def test_answer_views_by_hand(tmp_path):
    """Only the second snippet holds Bert; the title holds Oslo, which therefore no view does."""
    other = Passage("b", "Bert", "Nobody here. Nothing, there.", (12, 28))
    questions = [ask("Bert"), ask("Bert"), ask("Oslo"), ask("wept. Then")]
    subject = hand_subject(
        tmp_path,
        [PASSAGE, other],
        questions,
        layout=Snippets(),
        index=hand_index([np.eye(3), np.eye(3)], ["a", "b"]),
        settings=Evaluation(depth=2, at=(1, 2)),
    )
    subject.top = retrieved([[1, 0], [0, 1], [0, 1], [0, -1]], [[0, 2], [1, 0], [0, 0], [1, -1]])
    assert subject.ranking.holds.tolist() == [[False, True], [True, False], [False, False], [True, False]]
    hits = answer_view_hits(subject)
    # Bert by his snippet at rank 2; by Anna's; by the title; an answer across two snippets.
    assert hits.tolist() == [[False, True], [False, False], [False, False], [False, False]]
    assert answer_view(subject).metrics == {
        "accuracy_at_1/answer_view": 0,
        "accuracy_at_1/other_views": 0.5,
        "accuracy_at_2/answer_view": 0.25,
        "accuracy_at_2/other_views": 0.5,
    }


@pytest.mark.parametrize("name", ["camvr", "padded"])
def test_answer_view_accuracy_of_a_model(request, name):
    """Eq. 15 as it is written, hit by hit."""
    analysed = request.getfixturevalue(name)
    subject = analysed.subject()
    passages, ids = {p.id: p for p in analysed.passages}, subject.index.ids.to_pylist()
    rows = {row["k"]: row for row in answer_view(subject).tables["answer_view"].rows.to_pylist()}
    assert list(rows) == [1, 3, 5]
    answered = [row for row, question in enumerate(analysed.questions) if question.answers]
    for k, row in rows.items():
        overall, answer = [], []
        for q in answered:
            answers, matched, any_part = analysed.questions[q].answers, [], []
            for number, view in zip(
                subject.top.passages[q, :k], subject.top.winning_views[q, :k], strict=True
            ):
                passage = passages[ids[number]]
                span = subject.layout.passage(passage)[0].views[view].span
                spans = find_answers(passage.text, answers)
                any_part.append(has_answer(passage.text, answers))
                matched.append(any(span and span[0] <= start and stop <= span[1] for start, stop in spans))
            overall.append(any(any_part))
            answer.append(any(matched))
        assert row["overall"] == pytest.approx(np.mean(overall))
        assert row["answer_view"] == pytest.approx(np.mean(answer))
        assert row["other_views"] == pytest.approx(np.mean(overall) - np.mean(answer))
    assert rows[1]["other_views"] > 0 < rows[1]["answer_view"]


def test_views_without_spans_have_no_answer_view(camvr):
    subject = camvr.subject()
    subject.layout = SimpleNamespace(has_spans=False)
    with pytest.raises(NotApplicable, match="no part of the text"):
        answer_view(subject)
