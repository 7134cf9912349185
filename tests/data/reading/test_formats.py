"""The formats of others' files, with the quirks that their real files have."""

import gzip
from typing import get_args

import pytest

from multiview.config import DataFormat
from multiview.data.reading.formats import FORMATS, detect
from multiview.errors import InputError
from tests.fixtures.format_files import passages, put


def test_the_setting_knows_the_formats():
    assert set(get_args(DataFormat)) == {"auto", *FORMATS}


@pytest.mark.parametrize(
    ("name", "content", "form"),
    [
        ("a.json", '{"version": "1.1", "data": []}', "squad"),
        ("a.JSON", '{\n "data": []}', "squad"),
        ("a.json", ' \n[{"question": "?"', "dpr"),
        ("lines.json", '{"id": "a", "text": "x"}\n{"id": "b", "text": "y"}\n', "jsonl"),
        ("a.jsonl", "", "jsonl"),
        ("a.ndjson", "", "jsonl"),
        ("a.pq", "", "parquet"),
        ("a.csv", "id,text\n1,x\n", "csv"),
        ("nq-test.csv", "who sings it\t['Linda Davis']\n", "qa"),
        ("trivia-test.qa.csv", 'Who was it?\t"[""A"", ""B \'C\'""]"\r\n', "qa"),
        ("psgs_w100.tsv", 'id\ttext\ttitle\n1\t"x"\tT\n', "tsv"),
        ("mine.tsv", "number\tcontent\n1\tx\n", "marco"),
        ("header.tsv", "ID\tText\n1\tx\n", "tsv"),
        ("long.json", '{"id": "a", "text": "' + "x" * 100_000 + '"}\n', "jsonl"),
        ("chapter.txt", "Chapter 0 of 5\n", "text"),
        ("collection.tsv", '0\tThe "Manhattan" project\n', "marco"),
        ("qrels.train.tsv", "1185869\t0\t0\t1\n", "qrels"),
        ("2019qrels-pass.txt", "19335 Q0 1017759 0\n", "qrels"),
        ("test.tsv", "query-id\tcorpus-id\tscore\n1\t31715818\t1\n", "qrels"),
        ("article.txt", "Once upon a time there was 1\n", "text"),
    ],
)
def test_the_format_is_known_by_name_and_first_line(tmp_path, name, content, form):
    for mark in ("", "\ufeff"):
        assert detect(put(tmp_path / name, mark + content), "auto", "corpus.format") == form
    packed = gzip.compress(content.encode())
    assert detect(put(tmp_path / f"{name}.gz", packed), "auto", "corpus.format") == form


def test_a_format_may_be_named_and_must_be_where_nothing_says_it(tmp_path):
    file = put(tmp_path / "corpus.dat", '{"id": "a", "text": "x"}\n')
    with pytest.raises(InputError, match=r"corpus\.dat.*corpus\.format to one of squad, dpr, .*text"):
        passages(file)
    assert passages(file, form="jsonl") == [{"id": "a", "title": "", "text": "x"}]
    mine = put(tmp_path / "mine.tsv", "number\tcontent\n1\tx\n")
    expected = [{"id": "1", "title": "", "text": "x"}]
    assert passages(mine, form="tsv", columns={"id": "number", "text": "content"}) == expected
    assert passages(mine, columns={"id": "number", "text": "content"}) == expected, (
        "the mapping shows that there is a header"
    )


# --- DPR ---
