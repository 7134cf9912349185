"""Accuracy by group of questions."""

import numpy as np
import pytest

from multiview.data.passages import Passage
from multiview.evaluation.analyses.answer_view import answer_view
from multiview.evaluation.analyses.groups import (
    accuracy_by_group,
    answer_span,
    groups,
    sentences_group,
    snippet_group,
    third_group,
    title_group,
)
from tests.fixtures.snippet_views import FIRST, PADDING, PASSAGE, SECOND, VIEWS, ask


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
