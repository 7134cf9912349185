"""Tables with a header, and columns of the user's own."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from multiview.data.questions import Question
from multiview.data.reading.sources import expand_sources
from multiview.data.reading.tables import tables_of_rows
from multiview.errors import InputError
from tests.fixtures.format_files import beir, passages, put, questions


@pytest.mark.parametrize(("suffix", "delimiter"), [("csv", ","), ("tsv", "\t")])
def test_a_table_with_a_header_a_mark_and_crlf(tmp_path, suffix, delimiter):
    def table(*rows: list[str]) -> bytes:
        return ("\ufeff" + "".join(delimiter.join(row) + "\r\n" for row in rows)).encode()

    file = put(
        tmp_path / f"p.{suffix}",
        table(
            ["id", "text", "title", "year"],
            ["1", '"a, ""b""\r\n\ufeffc\td"', "", "1900"],
            ["2", "x", "T", ""],
        ),
    )
    assert passages(file) == [
        {"id": "1", "title": "", "text": 'a, "b"\r\n\ufeffc\td', "year": "1900"},
        {"id": "2", "title": "T", "text": "x", "year": None},
    ]
    file = put(
        tmp_path / f"q.{suffix}",
        table(
            ["qid", "question", "answers", "answer_starts", "positive_ids", "relevance"],
            ["1", "Who?", '"[""a"", ""b""]"', '"[0, 4]"', "\"['1', '2']\"", '"[1, 3]"'],
            ["2", "What?", "sic!", "7", "2", "2"],
            ["3", "Why?", "so", "", "3", ""],
        ),
    )
    assert questions(file) == [
        Question("1", "Who?", ("a", "b"), (0, 4), ("1", "2"), (1, 3)),
        Question("2", "What?", ("sic!",), (7,), ("2",), (2,)),
        Question("3", "Why?", ("so",), None, ("3",)),
    ]


def test_columns_of_the_user_s_own_may_be_mixed_and_nested(tmp_path):
    rows = [
        {"id": 1, "text": "x", "year": 1500, "refs": [{}]},
        {"id": "b", "text": "y", "year": "1500 BC", "refs": [{"a": 1}, {"b": 2}]},
        {"id": "c", "text": "z", "refs": []},
    ]
    file = put(tmp_path / "p.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert passages(file) == [
        {"id": "1", "title": "", "text": "x", "year": "1500", "refs": "[{}]"},
        {"id": "b", "title": "", "text": "y", "year": "1500 BC", "refs": '[{"a": 1}, {"b": 2}]'},
        {"id": "c", "title": "", "text": "z", "year": None, "refs": "[]"},
    ]


def test_lists_of_values_of_different_types_are_a_line(tmp_path):
    file = put(tmp_path / "p.jsonl", '{"id": "a", "text": "b", "more": [1, "x"]}\n')
    message = "p.jsonl rows 1-1: lists of column 'more' hold values of different types; give them one type"
    with pytest.raises(InputError, match=message):
        passages(file)


def test_numbers_as_other_tools_write_them(tmp_path):
    row = {"qid": 1, "question": "?", "answers": [3.14], "answer_starts": 30.0, "positive_ids": 7}
    assert questions(put(tmp_path / "q.jsonl", json.dumps(row))) == [
        Question("1", "?", ("3.14",), (30,), ("7",))
    ]
    folder = beir(tmp_path / "scifact", "train")
    put(folder / "qrels/train.tsv", "query-id\tcorpus-id\tscore\n0\t4983\t1.0\n")
    assert questions(*expand_sources([str(folder)], "train"))[0].positive_ids == ("4983",)


def test_a_text_of_a_parquet_file_that_is_not_utf_8_is_a_line(tmp_path):
    """Arrow reads it without a word, and Python could not."""
    texts = pa.array([b"a", b"caf\xe9"]).view(pa.binary())
    wrong = pa.Array.from_buffers(pa.string(), 2, texts.buffers())
    pq.write_table(pa.table({"id": ["a", "b"], "text": wrong}), tmp_path / "p.parquet")
    with pytest.raises(InputError, match=r"p\.parquet rows 1-2: damaged \(.*UTF8.*\); write the file again"):
        passages(str(tmp_path / "p.parquet"))


@pytest.mark.parametrize(
    ("times", "said"),
    [
        (pa.array([2**62, 0], pa.timestamp("us")), "out of range"),
        (pa.array([0, None], pa.timestamp("us", "Mars/Olympus")), ""),
        (pa.array([2**31 - 1, 0], pa.date32()), "must have magnitude"),
    ],
    ids=["after 9999", "of an unknown zone", "days after 9999"],
)
def test_times_that_no_search_could_show_are_a_line(tmp_path, times, said):
    """A run took them, and each search that found the passage failed."""
    pq.write_table(pa.table({"id": ["a", "b"], "text": ["x", "y"], "day": times}), tmp_path / "p.parquet")
    with pytest.raises(
        InputError, match=rf"p\.parquet rows 1-2: column 'day' of type .*{said}.*; write it as text"
    ):
        passages(str(tmp_path / "p.parquet"))


def test_times_of_any_unit_are_carried(tmp_path):
    times = [pa.array([0, None], pa.timestamp(unit, "UTC")) for unit in ("s", "ms", "us", "ns")]
    table = pa.table([["a", "b"], ["x", "y"], *times, pa.nulls(2, pa.date64())], ["id", "text", *"smund"])
    pq.write_table(table, tmp_path / "p.parquet")
    assert len(passages(str(tmp_path / "p.parquet"))) == 2


def test_a_column_of_a_parquet_file_that_is_named_twice_is_a_line(tmp_path):
    pq.write_table(pa.table([["a"], ["x"], ["y"]], ["id", "text", "text"]), tmp_path / "p.parquet")
    with pytest.raises(InputError, match=r"p\.parquet: names a column twice: 'text' among id, text, text"):
        passages(str(tmp_path / "p.parquet"))


@pytest.mark.parametrize("values", [[1.5, True], [True, 1.5], [1, False]])
def test_true_and_false_beside_numbers_are_refused_and_are_never_1_and_0(values):
    with pytest.raises(InputError, match=r"p.jsonl row [12]: column 'title' holds .*; give it one type"):
        list(tables_of_rows([{"title": value} for value in values], "p.jsonl"))


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("text", ["a", "b"], r"\['a', 'b'\], and other rows texts or numbers"),
        ("id", True, r"True, and other rows texts or numbers"),
        ("text", float("inf"), r"inf, and other rows texts or numbers"),
        ("more", [1], r"\[1\], and other rows texts or numbers"),
        ("tags", "x", r"'x', and other rows lists"),
        ("seen", 0, r"0, and other rows true and false"),
    ],
)
def test_a_value_of_another_type_is_named_with_its_row_and_the_type_of_others(column, value, said):
    rows = [{"id": f"p{n}", "text": "x", "more": n, "tags": ["t"], "seen": True} for n in range(1020)]
    rows[1002][column] = value
    with pytest.raises(
        InputError, match=rf"p\.jsonl row 1003: column '{column}' holds {said}; give it one type$"
    ):
        list(tables_of_rows(rows, "p.jsonl"))


def test_true_beside_a_missing_value_of_pandas_stays_true():
    [table] = tables_of_rows([{"checked": float("nan")}, {"checked": True}], "p.jsonl")
    assert table["checked"].to_pylist() == [None, True]
