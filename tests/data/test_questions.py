"""Questions as files: what is written is read."""

import hashlib

import pytest

from multiview.data.questions import (
    FILE,
    LostQuestions,
    Question,
    read_lost_questions,
    read_questions,
    seeded_hash,
    write_lost_questions,
    write_questions,
)


def test_a_draw_is_a_digest_of_seed_and_name():
    assert seeded_hash(7, "q1") == hashlib.sha256(b"7:q1").hexdigest()


@pytest.mark.parametrize("number", [0, 3])
def test_questions_are_read_as_written_and_written_alike(tmp_path, number):
    questions = [
        Question("1", "Où?", ("là", "ici"), (0, 4), ("p",)),
        Question("2", "Who?", ("I",), None, ("p", "q"), (1, 2)),
        Question("3", "What?", ("x",), (2,), ("r",)),
    ][:number]
    write_questions(questions, tmp_path)
    first = (tmp_path / FILE).read_bytes()
    assert read_questions(tmp_path) == questions
    write_questions(questions, tmp_path)
    assert (tmp_path / FILE).read_bytes() == first


@pytest.mark.parametrize("lost", [LostQuestions(3, ("a", "b")), LostQuestions(0, ())])
def test_lost_questions_are_read_as_written(tmp_path, lost):
    write_lost_questions(lost, tmp_path)
    assert read_lost_questions(tmp_path) == lost
    assert lost.share == (2 / 3 if lost.lost else 0.0)
