"""The log of questions: rotation, and a disk that fails."""

import json
import logging

import pytest

import multiview
from multiview.serving import question_log
from multiview.serving.follow import Generation
from multiview.serving.question_log import QuestionLog


@pytest.fixture(scope="module")
def generation(indexes):
    return Generation(multiview.load(indexes.index("camvr")))


def test_a_full_file_is_followed_by_the_next_and_all_are_read_in_order(generation, tmp_path, monkeypatch):
    monkeypatch.setattr(question_log, "FILE_BYTES", 1500)
    monkeypatch.setattr(question_log, "FILES_KEPT", 3)
    written = QuestionLog(tmp_path / "q.jsonl")
    for number in range(100):
        written.write(generation, None, [f"{number}?"], [[]])
    files = sorted(file.name for file in tmp_path.iterdir())
    assert files == ["q.jsonl", "q.jsonl.1", "q.jsonl.2", "q.jsonl.3"]
    assert all(file.stat().st_size <= 1500 for file in tmp_path.iterdir())
    lines = [line for name in reversed(files) for line in (tmp_path / name).read_text().splitlines()]
    read = [json.loads(line)["question"] for line in lines]
    assert read == [f"{number}?" for number in range(100)][-len(read) :] and len(read) > 5


def test_a_line_that_cannot_be_written_is_told_without_its_question(
    generation, tmp_path, caplog, capfd, monkeypatch
):
    written = QuestionLog(tmp_path / "q.jsonl")

    def full(text):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(written._handler.stream, "write", full, raising=False)
    question = "the zebra?"  # by name, because a traceback shows the line that asks
    with caplog.at_level(logging.ERROR):
        written.write(generation, None, [question], [[]])
    assert "a line was not written" in caplog.text
    assert "zebra" not in caplog.text + "".join(capfd.readouterr())
