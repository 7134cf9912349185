"""Answers that are not at their offset any more, as the split step finds or loses them."""

from dataclasses import replace

import pytest

from multiview.config import Config, Corpus, Questions
from multiview.data.gold_answers import LOST, MOVED, UNHELD, GoldAnswers
from multiview.data.inspection import inspect
from multiview.data.questions import Question
from multiview.data.tokens import Mode
from multiview.errors import Problems, Report
from tests.fixtures.split_run import Done, passage_rows, question_rows, settings, write


def seen(question: Question, text: str, mode: Mode = "string") -> tuple[Question | None, Problems]:
    """The question after its passage was seen, none if it is lost, and the remarks."""
    report = Report()
    answers = GoldAnswers([question], mode, report)
    answers.see("p", text)
    answers.finish()
    return None if answers.are_lost(question) else answers.updated(question), report.remarks


def test_offsets_are_not_used_where_the_answer_has_moved(tmp_path, files):
    """As after an edit of its passage. Nothing changes for the other questions."""
    expected = Done(tmp_path / "usual", *settings(files)).train
    rows, shifts = question_rows("t", 40, 20), (1, -1, 1000, -100)
    for row, shift in enumerate(shifts, 2):
        rows[row]["answer_starts"][0] += shift
        expected[row] = replace(expected[row], answer_starts=None)
    files.train = write(tmp_path / "t.jsonl", rows)
    done = Done(tmp_path / "moved", *settings(files))
    assert done.train == expected
    assert done.events.facts["moved_answers"] == len(shifts)
    (warning,) = done.events.warnings
    said = (
        f"the first: question t2: answer 'word2' should stand at {rows[2]['answer_starts'][0]} of passage p2"
    )
    assert warning.startswith(f"{MOVED}: {len(shifts)}, {said}")


@pytest.mark.parametrize(
    ("answer", "old", "new", "held"),
    [
        ("5", "It has 5 towers. Built in 1995.", "It has many towers, all new. Built in 1995.", False),
        ("king", "The king built it.", "Kingship: the queenking and all kings.", False),
        ("5", "It has 5 towers.", "Since 1995 and 2005 it has, so they say, 5 towers.", True),
        ("5 %", "By 5 % of it.", "By 25 %, then 5 %.", True),
        ("cafe", "At the cafe.", "At no cafe\u0301, at a cafe.", True),
    ],
)
def test_an_answer_that_moved_is_not_held_within_another_word_or_number(answer, old, new, held):
    """A view that holds 1995 says nothing of 5 towers."""
    asked = Question("q", "?", (answer,), (old.index(answer),), ("p",))
    question, remarks = seen(asked, new)
    assert question == (replace(asked, answer_starts=None) if held else None)
    assert list(remarks.counts) == [MOVED if held else LOST]


@pytest.mark.parametrize(
    ("mode", "text", "held"),
    [
        ("characters", "他住在北京市。", True),
        ("string", "他住在北京市。", False),
        ("characters", "か\u3099北京か", True),
    ],
)
def test_a_letter_of_chinese_is_a_word_where_answers_are_matched_by_characters(mode, text, held):
    question, _ = seen(Question("q", "?", ("北京",), (0,), ("p",)), text, mode)
    assert (question is not None) == held


def test_an_answer_at_its_offset_may_be_a_part_of_a_word():
    asked = Question("q", "?", ("1990",), (7,), ("p",))
    question, remarks = seen(asked, "In the 1990s.")
    assert question == asked and not remarks.counts


def test_questions_whose_answers_were_edited_away_are_left_out_counted_and_said(tmp_path, files):
    """A nightly refresh goes on after an edit of a gold passage; past a share it is an error (test_split_errors.py)."""
    passages = passage_rows(25)
    passages[3]["text"] = "Passage 3 was edited. Nothing is left."
    passages[4]["text"] = f"A new first sentence. {passages[4]['text']}"
    files.corpus = write(tmp_path / "edited.jsonl", passages)
    done = Done(tmp_path / "out", *settings(files, max_missing_gold=0.1))
    about = [q for q in done.train if q.positive_ids == ("p3",)]
    assert not about and len(done.train) == 38 and len(done.dev) == 9
    assert done.events.facts["questions_with_lost_answers"] == 3
    assert done.events.facts["moved_answers"] == 3
    moved, lost = done.events.warnings
    assert moved.startswith(f"{MOVED}: 3, ") and lost.startswith(f"{LOST}: 3, the first: question t3")
    texts = {passage.id: passage.text for passage in done.passages}
    for question in (*done.train, *done.dev):
        assert (question.answer_starts is None) == (question.positive_ids == ("p4",))
        for answer, start in zip(question.answers, question.answer_starts or (), strict=False):
            assert texts[question.positive_ids[0]].startswith(answer, start)


def test_of_several_answers_one_that_is_not_at_its_offset_takes_the_offsets_from_all(tmp_path, files):
    rows = question_rows("t", 40, 20)
    rows[1] |= {"answers": ["gone", "word1", "Passage"], "answer_starts": [0, 3, 0]}
    files.train = write(tmp_path / "t.jsonl", rows)
    question = Done(tmp_path / "out", *settings(files)).train[1]
    assert question.answers == ("gone", "word1", "Passage") and question.answer_starts is None


def test_questions_without_offsets_whose_passages_hold_no_answer_are_kept_counted_and_said(tmp_path):
    """Without offsets an answer may be a free one, which never stood in its passage. One gold passage that holds it will do."""
    texts = {"a": "Founded in 1203.", "b": "Founded in 9999.", "c": "Nothing."}
    corpus = write(tmp_path / "c.jsonl", [{"id": id_, "text": text} for id_, text in texts.items()])
    golds = {"q": ["a"], "r": ["b"], "s": ["c", "a"], "t": ["c", "b"]}
    rows = [
        {"qid": qid, "question": f"When was {qid}?", "answers": ["1203"], "positive_ids": gold}
        for qid, gold in golds.items()
    ]
    asked = write(tmp_path / "q.jsonl", rows)
    corpus_settings = Corpus(source=(corpus,), shards=1)
    done = Done(tmp_path / "out", corpus_settings, Questions(source=(asked,)))
    assert len(done.train) + len(done.dev) == 4
    assert done.events.facts["questions_without_held_answers"] == 2
    line = "question r, passage b, answer '1203'"
    assert f"{UNHELD}: 2, the first: {line}" in done.events.warnings
    given = {"corpus": corpus_settings, "questions": Questions(source=(asked,))}
    found = inspect(Config.partial(given), lambda _: None)
    assert (found.remarks.counts[UNHELD], found.remarks.first[UNHELD]) == (2, line)
