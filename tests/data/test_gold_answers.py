"""Answers that are not at their offset any more, as the split step finds or loses them."""

import pytest

from multiview.config import Config, Corpus, Questions
from multiview.data.gold_answers import LOST, MOVED, UNHELD, GoldAnswers
from multiview.data.inspection import inspect
from multiview.data.questions import Question
from multiview.data.tokens import Mode
from multiview.errors import Problems
from tests.fixtures.split_run import Done, passage_rows, question_rows, settings, write


def found_again(question: Question, text: str, mode: Mode = "string") -> tuple[int | None, Problems]:
    """Where the question's answer stands in its passage now, and the remarks."""
    remarks = Problems()
    answers = GoldAnswers([question], mode, remarks)
    answers.see("p", text)
    starts = answers.updated(question).answer_starts
    return starts[0] if starts and not answers.are_lost(question) else None, remarks


@pytest.mark.parametrize("shift", [1, -1, 1000, -100])
def test_an_answer_that_moved_is_found_again_at_its_nearest_place(tmp_path, files, shift):
    """As after an edit of its passage. Nothing changes for the other questions."""
    rows = question_rows("t", 40, 20)
    start = rows[2]["answer_starts"][0]
    rows[2]["answer_starts"][0] += shift
    usual = Done(tmp_path / "usual", *settings(files))
    files.train = write(tmp_path / "t.jsonl", rows)
    done = Done(tmp_path / "moved", *settings(files))
    assert done.train == usual.train and done.train[2].answer_starts == (start,)
    assert done.events.facts["moved_answers"] == 1
    (warning,) = done.events.warnings
    assert warning.startswith("answers not at their offset, found again in the passage: 1, the first: ")
    assert f"question t2: answer 'word2' should stand at {start + shift} of passage p2" in warning


@pytest.mark.parametrize(
    ("stood", "expected"), [(0, 0), (4, 6), (1, 0), (5, 6), (99, 12), (-3, 0), (8, 6), (11, 12)]
)
def test_of_several_occurrences_the_nearest_counts(tmp_path, stood, expected):
    corpus = write(
        tmp_path / "c.jsonl", [{"id": "a", "text": "Paris Paris Paris."}, {"id": "b", "text": "b"}]
    )
    rows = [
        {"qid": "q", "question": "?", "answers": ["Paris"], "answer_starts": [stood], "positive_ids": ["a"]},
        {"qid": "r", "question": "?", "answers": ["b"], "answer_starts": [0], "positive_ids": ["b"]},
    ]
    asked = write(tmp_path / "q.jsonl", rows)
    done = Done(
        tmp_path / "out", Corpus(source=(corpus,), shards=1), Questions(source=(asked,), dev_source=(asked,))
    )
    assert done.train[0].answer_starts == (expected,)


@pytest.mark.parametrize(
    ("answer", "old", "new", "expected"),
    [
        ("5", "It has 5 towers. Built in 1995.", "It has many towers, all new. Built in 1995.", None),
        ("king", "The king built it.", "Kingship: the queenking and all kings.", None),
        ("5", "It has 5 towers.", "Since 1995 and 2005 it has, so they say, 5 towers.", 41),
        ("5 %", "By 5 % of it.", "By 25 %, then 5 %.", 14),
        ("cafe", "At the cafe.", "At no cafe\u0301, at a cafe.", 18),
    ],
)
def test_an_answer_is_not_found_again_within_another_word_or_number(answer, old, new, expected):
    """As `has_answer` would not find it there, and a view that holds 1995 says nothing of 5 towers."""
    start, remarks = found_again(Question("q", "?", (answer,), (old.index(answer),), ("p",)), new)
    assert start == expected
    assert list(remarks.counts) == [LOST if expected is None else MOVED]
    if expected is None:
        assert remarks.first[LOST].endswith("and the text holds it only within other words")


@pytest.mark.parametrize(
    ("mode", "text", "expected"),
    [
        ("characters", "他住在北京市。", 3),
        ("string", "他住在北京市。", None),
        ("characters", "か\u3099北京か", 2),
    ],
)
def test_a_letter_of_chinese_is_a_word_where_answers_are_matched_by_characters(mode, text, expected):
    start, _ = found_again(Question("q", "?", ("北京",), (0,), ("p",)), text, mode)
    assert start == expected


def test_an_answer_at_its_offset_may_be_a_part_of_a_word():
    start, remarks = found_again(Question("q", "?", ("1990",), (7,), ("p",)), "In the 1990s.")
    assert start == 7 and not remarks.counts


def test_a_question_whose_answer_is_left_within_a_number_alone_is_lost(tmp_path, files):
    passages, rows = passage_rows(25), question_rows("d", 10, 10)
    passages[3]["text"] = "Passage 3 was edited in 1995."
    rows[3] |= {"answers": ["5"], "answer_starts": [3]}
    files.corpus = write(tmp_path / "edited.jsonl", passages)
    dev = write(tmp_path / "d.jsonl", rows)
    done = Done(tmp_path / "out", *settings(files, dev_source=dev, max_missing_gold=0.2))
    assert done.lost.lost == ("d3",)
    assert done.events.facts["moved_answers"] == 0


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
    lost, moved = done.events.warnings
    assert lost.startswith(f"{LOST}: 3, the first: question t3") and moved.startswith(f"{MOVED}: 3, ")
    texts = {passage.id: passage.text for passage in done.passages}
    for question in (*done.train, *done.dev):
        for answer, start in zip(question.answers, question.answer_starts or (), strict=True):
            assert texts[question.positive_ids[0]].startswith(answer, start)


def test_of_several_answers_those_that_the_passage_still_holds_are_kept(tmp_path, files):
    rows = question_rows("t", 40, 20)
    rows[1] |= {"answers": ["gone", "word1", "Passage"], "answer_starts": [0, 3, 0]}
    files.train = write(tmp_path / "t.jsonl", rows)
    question = Done(tmp_path / "out", *settings(files)).train[1]
    assert question.answers == ("word1", "Passage")
    assert question.answer_starts == (question_rows("t", 40, 20)[1]["answer_starts"][0], 0)


def test_questions_without_offsets_whose_passages_hold_no_answer_are_kept_counted_and_said(tmp_path):
    """Without offsets an answer may be a free one, which never stood in its passage. One gold passage that holds it will do."""
    texts = {"a": "Founded in 1203.", "b": "Founded in 9999.", "c": "Nothing."}
    corpus = write(tmp_path / "c.jsonl", [{"id": id_, "text": text} for id_, text in texts.items()])
    golds = {"q": ["a"], "r": ["b"], "s": ["c", "a"], "t": ["c", "b"]}
    rows = [
        {"qid": qid, "question": "When?", "answers": ["1203"], "positive_ids": gold}
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
