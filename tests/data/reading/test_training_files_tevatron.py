"""tevatron's training files: questions with whole passages, positive and negative."""

import json

import pytest

from multiview.data.questions import Question
from multiview.data.reading.formats import detect
from multiview.errors import InputError
from tests.fixtures.format_files import passages, put, questions, tevatron


@pytest.mark.parametrize("name", ["train.jsonl", "train.json"])
def test_questions_name_their_positives_and_negatives(tmp_path, name):
    file = tevatron(tmp_path, name)
    assert detect(file, "auto", "questions.format") == "tevatron"
    assert questions(file) == [
        Question("1185869", "what was the immediate impact", (), None, ("0",), None, ("2", "1")),
        Question("7", "who?", (), None, ("1",)),
        Question("nq-0", "how many episodes", ("seven", "7"), None, ("1", "3"), None, ("0",)),
    ]


@pytest.mark.parametrize("name", ["query_id", "qid", "question_id", "_id"])
@pytest.mark.parametrize("asked", [("query", "positive_passages"), ("question", "positive_ctxs")])
def test_a_question_has_the_id_that_its_row_gives(tmp_path, name, asked):
    query, positives = asked
    row = {name: 7, query: "who?", "answers": ["x"], positives: [{"docid": "a", "text": "x"}]}
    unnamed = row | {name: "8"} if name == "query_id" else row | {name: None}
    found = questions(put(tmp_path / "train.jsonl", f"{json.dumps(row)}\n{json.dumps(unnamed)}\n"))
    assert [question.qid for question in found] == ["7", "8" if name == "query_id" else "train-2"]


def test_a_file_brings_the_passages_that_it_names(tmp_path):
    rows = passages(tevatron(tmp_path))
    assert [row["id"] for row in rows] == ["0", "2", "1", "2", "1", "1", "3", "0"]
    assert rows[0] == {"id": "0", "title": "T0", "text": "text 0"}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({}, r"no training question \(.*query_id, query, positive_passages"),
        ({"query": "?", "positive_passages": [{"title": "x"}]}, "a passage without text or id in positive_passages"),
    ],
)  # fmt: skip
def test_a_row_of_another_form_is_named(tmp_path, row, message):
    first = {"query_id": "0", "query": "?", "positive_passages": [{"docid": "p", "text": "x"}]}
    row = {"query_id": "1", "positive_passages": []} | row
    file = put(tmp_path / "train.jsonl", f"{json.dumps(first)}\n{json.dumps(row)}\n")
    with pytest.raises(InputError, match=rf"train\.jsonl row 2: {message}"):
        questions(file)


@pytest.mark.parametrize("kind", ["positive_passages", "negative_passages"])
def test_passages_that_are_no_list_are_named(tmp_path, kind):
    for given in ({}, {"docid": "1"}, "no list", 0, False):
        row = {"query_id": "1", "query": "?", "positive_passages": [], kind: given}
        with pytest.raises(InputError, match=rf"train\.jsonl row 1: {kind} is no list of passages"):
            questions(put(tmp_path / "train.jsonl", json.dumps(row)))
