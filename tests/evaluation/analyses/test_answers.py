"""Answer-view accuracy (CAMVR Eq. 15), the training questions' answers, and accuracy by group."""

from types import SimpleNamespace

import numpy as np
import pytest

from multiview.config import Evaluation
from multiview.data.answers import find_answers, has_answer
from multiview.data.passages import Passage
from multiview.data.questions import Question
from multiview.evaluation.analyses.answer_view import answer_view, answer_view_hits, holds_match
from multiview.evaluation.analyses.groups import (
    accuracy_by_group,
    answer_span,
    groups,
    sentences_group,
    snippet_group,
    third_group,
    title_group,
)
from multiview.evaluation.analyses.subject import NotApplicable
from multiview.evaluation.analyses.training_answers import KINDS, found_by, training_answers
from multiview.model.layouts import TokenSequence, View
from tests.fixtures.analysed_model import hand_index, hand_subject, retrieved

TITLE, FIRST, SECOND = View(((0, 1),)), View(((1, 2),), (0, 12)), View(((2, 3),), (12, 28))
PADDING = View(((3, 4),), None, padding=True)
VIEWS = (TITLE, FIRST, SECOND, PADDING)
PASSAGE = Passage("a", "Oslo", "Anna wept.  Then Bert left.", (12, 28))


class Snippets:
    """The title, two snippets and padding, whatever the passage."""

    has_spans = True
    reads_queries = False
    max_views = 4

    def passage(self, passage, queries=()):
        return [TokenSequence([1, 2, 3, 4], VIEWS)]


def ask(*answers: str, starts: tuple[int, ...] | None = None) -> Question:
    return Question("q", "who?", answers, starts, ("a",))


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
        top=retrieved([[1, 0], [0, 1], [0, 1], [0, -1]], [[0, 2], [1, 0], [0, 0], [1, -1]]),
        settings=Evaluation(depth=2, at=(1, 2)),
    )
    assert subject.holds.tolist() == [[False, True], [True, False], [False, False], [True, False]]
    hits = answer_view_hits(subject)
    # Bert by his snippet at rank 2; by Anna's; by the title; an answer across two snippets.
    assert hits.tolist() == [[False, True], [False, False], [False, False], [False, False]]
    assert answer_view(subject).metrics == {
        "accuracy_at_1/answer_view": 0,
        "accuracy_at_1/other_views": 0.5,
        "accuracy_at_2/answer_view": 0.25,
        "accuracy_at_2/other_views": 0.5,
    }


def test_a_span_holds_whole_matches():
    assert holds_match((3, 7), [(0, 4), (3, 7)]) and not holds_match((3, 7), [(2, 7), (3, 8)])
    assert not holds_match(None, [(0, 4)])


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


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        (ask("Bert", starts=(17,)), "offset"),
        (ask("Anna", "Bert"), "several"),
        (ask("bert"), "one"),
        (ask("Oslo"), "title"),
        (ask("wept. Then"), "none"),
        (ask("wept.  Then", starts=(5,)), "none"),
        (ask("Cato"), "none"),
    ],
)
def test_how_a_training_question_s_answer_is_found(question, kind):
    assert found_by(question, PASSAGE, VIEWS, "string") == kind


def test_training_answers_of_data(padded):
    metrics = training_answers(padded.subject()).metrics
    assert sum(metrics[f"training_answers_{kind}"] for kind in KINDS) == pytest.approx(1)
    with_offset = [q for q in padded.questions if q.answer_starts]
    assert metrics["training_answers_offset"] == len(with_offset) / len(padded.questions)
    assert metrics["training_answers_one"] > 0 < metrics["training_answers_several"]
    asked = {q.positive_ids[0] for q in padded.questions}
    assert metrics["avq"] == len(padded.questions) / len(asked)


def test_without_spans_there_is_avq_alone(padded):
    subject = padded.subject()
    subject.layout = SimpleNamespace(has_spans=False)
    assert list(training_answers(subject).metrics) == ["avq"]
    subject.train_questions = None
    with pytest.raises(NotApplicable, match="training questions"):
        training_answers(subject)


def test_groups_by_hand():
    assert [third_group((start, start + 1), 9) for start in (0, 2, 3, 5, 6, 8)] == list("112233")
    assert third_group((0, 9), 9) == "2" and third_group((8, 10), 9) == "3"
    assert third_group(None, 9) == "nowhere"
    assert [sentences_group(n) for n in (0, 3, 4, 9, 10, 99)] == [
        "1_3",
        "1_3",
        "4_6",
        "7_9",
        "10_or_more",
        "10_or_more",
    ]
    assert [snippet_group(span, VIEWS) for span in ((0, 4), (17, 21), (5, 16), None)] == [
        "2",
        "3",
        "none",
        "none",
    ]
    assert title_group("Oslo", VIEWS) == "alone" and title_group(" ", VIEWS) == "absent"
    assert title_group("Oslo", (FIRST, SECOND, PADDING)) == "merged"


def test_where_an_answer_stands():
    assert answer_span(ask("Bert", starts=(2,)), PASSAGE, "string") == (2, 6), "the data's word for it"
    assert answer_span(ask("Bert"), PASSAGE, "string") == (17, 21)
    elsewhere = Passage("b", "", PASSAGE.text, PASSAGE.sentence_ends)
    assert answer_span(ask("Bert", starts=(2,)), elsewhere, "string") == (17, 21), "of another passage"
    assert answer_span(ask("Cato"), PASSAGE, "string") is None


def test_accuracy_by_group_by_hand():
    findings = accuracy_by_group(
        np.array([1, 3, 0, 2]), {("title", "merged"): [0, 1], ("title", "alone"): [2, 3]}, [1, 2]
    )
    assert findings.metrics == {
        "accuracy_at_1/title_alone": 0,
        "accuracy_at_2/title_alone": 0.5,
        "accuracy_at_1/title_merged": 0.5,
        "accuracy_at_2/title_merged": 0.5,
    }
    assert findings.tables["groups"].rows["questions"].to_pylist() == [2, 2]


def test_each_grouping_holds_every_answered_question_once(padded):
    rows = groups(padded.subject()).tables["groups"].rows.to_pylist()
    answered = sum(bool(question.answers) for question in padded.questions)
    sizes: dict[str, int] = {}
    for row in rows:
        sizes[row["grouping"]] = sizes.get(row["grouping"], 0) + row["questions"]
    assert sizes == dict.fromkeys(("sentences", "title", "answer_third", "answer_snippet"), answered)
    overall = answer_view(padded.subject()).tables["answer_view"].rows.to_pylist()[0]["overall"]
    for grouping in sizes:
        mine = [(row["questions"], row["accuracy_at_1"]) for row in rows if row["grouping"] == grouping]
        assert sum(n * accuracy for n, accuracy in mine) / answered == pytest.approx(overall)
    assert {row["group"] for row in rows if row["grouping"] == "title"} == {"alone", "absent"}
