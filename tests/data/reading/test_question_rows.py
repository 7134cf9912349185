"""Rows of questions: what they may hold. More rows that cannot be are in tests/bad_input/files.py."""

import pytest

from multiview.data.questions import Question
from multiview.errors import InputError
from tests.fixtures.format_files import jsonl, parquet, questions

NAN = float("nan")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"positive_ids": [None]}, "no positive passage"),
        ({"positive_ids": ""}, "positive_ids hold an empty id; leave it out, or mend the id"),
        ({"negative_ids": [""]}, "negative_ids hold an empty id"),
        ({"positive_ids": ["a", None]}, "positive_ids hold null beside 'a'; leave it out, or mend the id"),
        ({"negative_ids": [NAN, 7]}, "negative_ids hold null beside 7"),
        ({"relevance": [1.5]}, "relevance are whole numbers, not"),
        ({"relevance": [True]}, "relevance are whole numbers, not"),
        ({"negative_ids": ["c", "a\0b"]}, r"negative_ids 'a\\x00b' holds a NUL character"),
        ({"positive_ids": ["a", "a"], "relevance": [1, 2]}, "passage a has relevance 1 and 2"),
    ],
)
def test_rows_of_questions_that_cannot_be(tmp_path, change, message):
    row = {"qid": "2", "question": "Who?", "answers": ["I"], "positive_ids": ["a"], "answer_starts": [0]}
    file = jsonl(tmp_path / "q.jsonl", {**row, "qid": "1"}, {**row, **change})
    with pytest.raises(InputError, match=message) as error:
        questions(file)
    assert "q.jsonl row 2" in str(error.value)


def test_whole_numbers_are_read_as_pandas_writes_them_beside_missing_ones(tmp_path):
    rows = 'qid,question,answers,positive_ids,answer_starts,relevance\nq,Who?,"[""I""]",a,34.0,2.0\n'
    (file := tmp_path / "q.csv").write_text(rows)
    assert questions(str(file)) == [Question("q", "Who?", ("I",), (34,), ("a",), (2,))]
    file.write_text(rows.replace("2.0", "2.5"))
    with pytest.raises(InputError, match=r"relevance are whole numbers, not"):
        questions(str(file))


def test_nan_in_questions_is_missing_too(tmp_path):
    row = {"qid": "q", "question": "x?", "answers": ["a", NAN], "positive_ids": "p", "answer_starts": NAN}
    assert questions(jsonl(tmp_path / "q.jsonl", row)) == [Question("q", "x?", ("a",), None, ("p",))]
    for name in ("qid", "question"):
        with pytest.raises(InputError, match="no qid or no question"):
            questions(jsonl(tmp_path / "n.jsonl", {**row, name: NAN}))


@pytest.mark.parametrize("value", [True, b"\xff"])
@pytest.mark.parametrize("name", ["qid", "question", "answers", "positive_ids"])
def test_a_truth_value_and_bytes_are_no_text_of_a_question(tmp_path, name, value):
    row = {"qid": "q", "question": "x?", "answers": "a", "positive_ids": "p"} | {name: value}
    file = parquet(tmp_path / "q.parquet", **{column: [value] for column, value in row.items()})
    with pytest.raises(
        InputError, match=rf"q\.parquet row 1.*{name} (is a text|are texts), not (b'.|{value})"
    ):
        questions(file)
