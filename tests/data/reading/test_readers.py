"""The user's files: what is read, and what the message says when it cannot be."""

import gzip
import hashlib
import json
import os
import tracemalloc
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from multiview.data.questions import Question
from multiview.data.reading.readers import passage_tables, questions_of
from multiview.data.reading.sources import expand_source, expand_sources, fingerprints
from multiview.errors import InputError

CONTEXT = "Élan is a word. So is Zürich."
SQUAD = {
    "version": "1.1",
    "data": [
        {
            "title": "Some_Words",
            "paragraphs": [
                {
                    "context": CONTEXT,
                    "qas": [
                        {
                            "id": "q1",
                            "question": "What is a word? ",
                            "answers": [
                                {"text": "Élan", "answer_start": 0},
                                {"text": "Zürich", "answer_start": 22},
                            ],
                        }
                    ],
                }
            ],
        }
    ],
}
SQUAD_ID = "sq-" + hashlib.sha1(CONTEXT.encode()).hexdigest()[:14]


def jsonl(path: Path, *rows: dict) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def parquet(path: Path, **columns) -> str:
    pq.write_table(pa.table(columns), path)
    return str(path)


def passages(file: str, **more) -> list[dict]:
    return [row for table in passage_tables(file, **more) for row in table.to_pylist()]


def questions(file: str, **more) -> list[Question]:
    return [question for _, question in questions_of([file], **more)]


# --- formats ---


@pytest.mark.parametrize("compressed", [False, True])
def test_squad(tmp_path, compressed):
    text = json.dumps(SQUAD)
    file = tmp_path / ("train.json.gz" if compressed else "train.json")
    file.write_bytes(gzip.compress(text.encode()) if compressed else text.encode())
    assert passages(str(file)) == [{"id": SQUAD_ID, "title": "Some Words", "text": CONTEXT}]
    assert questions(str(file)) == [
        Question("q1", "What is a word?", ("Élan", "Zürich"), (0, 22), (SQUAD_ID,))
    ]


def test_parquet_columns_by_our_names_others_carried_through(tmp_path):
    file = parquet(
        tmp_path / "p.parquet", pid=[7, 8], body=["a", "b"], url=["u", None], content_hash=["x", "y"]
    )
    assert passages(file, columns={"id": "pid", "text": "body"}) == [
        {"id": "7", "title": "", "text": "a", "url": "u"},
        {"id": "8", "title": "", "text": "b", "url": None},
    ]
    file = parquet(
        tmp_path / "q.parquet",
        qid=["1"],
        question=["Who?"],
        answers=["I"],
        gold=["p1"],
        more=[{"not": "read"}],
    )
    assert questions(file, columns={"positive_ids": "gold"}) == [Question("1", "Who?", ("I",), None, ("p1",))]


def test_jsonl_rows_may_lack_columns_that_others_have(tmp_path):
    file = jsonl(
        tmp_path / "p.jsonl", {"id": "a", "text": "x"}, {"id": "b", "text": "y", "title": "T", "year": 2000}
    )
    assert passages(file) == [
        {"id": "a", "title": "", "text": "x", "year": None},
        {"id": "b", "title": "T", "text": "y", "year": 2000},
    ]
    row = {"qid": 1, "question": "Who?", "answers": ["I", "me"], "positive_ids": ["a", "b", "a"]}
    file = tmp_path / "q.jsonl.gz"
    file.write_bytes(gzip.compress((json.dumps(row) + "\n\n").encode()))
    assert questions(str(file)) == [Question("1", "Who?", ("I", "me"), None, ("a", "b"))]


def test_tables_hold_a_thousand_rows_at_most(tmp_path):
    rows = [{"id": str(i), "text": "x"} for i in range(2500)]
    sizes = [1000, 1000, 500]
    assert [t.num_rows for t in passage_tables(jsonl(tmp_path / "p.jsonl", *rows))] == sizes
    file = parquet(tmp_path / "p.parquet", id=[str(i) for i in range(2500)], text=["x"] * 2500)
    assert [t.num_rows for t in passage_tables(file)] == sizes


def test_any_fsspec_url_is_read():
    with fsspec.open("memory://corpus/p.jsonl", "w") as file:
        file.write('{"id": "a", "text": "x"}\n')  # type: ignore[attr-defined]
    assert expand_source("memory://corpus", "corpus") == ["memory:///corpus/p.jsonl"]
    assert passages("memory:///corpus/p.jsonl") == [{"id": "a", "title": "", "text": "x"}]
    (before,) = fingerprints(expand_source("memory://corpus", "corpus"))
    with fsspec.open("memory://corpus/p.jsonl", "w") as file:
        file.write('{"id": "a", "text": "other"}\n')  # type: ignore[attr-defined]
    assert fingerprints(expand_source("memory://corpus", "corpus")) != [before]


# --- sources ---


def test_a_source_is_a_file_a_folder_or_a_pattern_with_variables(tmp_path, monkeypatch):
    for name in ("b.jsonl", "a.parquet", "README.md", ".hidden.jsonl"):
        (tmp_path / name).touch()
    (tmp_path / "deeper.jsonl").mkdir()
    monkeypatch.setenv("SOME_DATA", str(tmp_path))
    a, b = str(tmp_path / "a.parquet"), str(tmp_path / "b.jsonl")
    assert expand_source("${SOME_DATA}", "corpus") == [a, b]
    assert expand_source("${SOME_DATA}/b.jsonl", "corpus") == [b]
    assert expand_source(str(tmp_path / "*.jsonl"), "corpus") == [b]
    assert expand_sources([b, str(tmp_path)], "corpus") == [b, a]


def test_sources_that_are_not_there(tmp_path, monkeypatch):
    monkeypatch.delenv("SOME_DATA", raising=False)
    with pytest.raises(InputError, match="SOME_DATA is not set"):
        expand_source("${SOME_DATA}/x.json", "corpus")
    with pytest.raises(InputError, match="nowhere://x"):
        expand_source("nowhere://x", "corpus")
    with pytest.raises(InputError, match=r"x\.json: no such file"):
        expand_source(str(tmp_path / "x.json"), "corpus")
    with pytest.raises(InputError, match="no files there"):
        expand_source(str(tmp_path), "corpus")
    with pytest.raises(InputError, match="no files there"):
        expand_source(str(tmp_path / "*.json"), "corpus")


def test_a_fingerprint_is_of_content_and_name(tmp_path):
    (tmp_path / "a.json").write_bytes(b"content")
    digest = hashlib.sha256(b"content").hexdigest()
    assert fingerprints(expand_source(str(tmp_path), "corpus")) == [{"name": "a.json", "sha256": digest}]


# --- what is wrong with a file ---


def test_what_is_no_file_of_its_format(tmp_path):
    bad = {
        "x.json": b"{",
        "list.json": b'[{"a": 1}]',
        "cut.json": b'[{"question": "Who?", "answers": ["a"], "positive_ctxs": [',
        "object.json": b'{"data": [{"paragraphs": [{"context": null, "qas": []}]}]}',
        "x.json.gz": b"not gzip",
        "cut.json.gz": gzip.compress(json.dumps(SQUAD).encode() * 50)[:60],
        "x.parquet": b"PAR1 not at all",
        "x.jsonl": b'{"id": "a", "text": "x"}\nnot json\n',
        "latin.jsonl": '{"id": "ä"}'.encode("latin-1"),
        "string.jsonl": b'"a"\n',
    }
    for name, content in bad.items():
        (tmp_path / name).write_bytes(content)
        for read in (passages, questions):
            with pytest.raises(InputError, match=name) as error:
                read(str(tmp_path / name))
            assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="line 2"):
        passages(str(tmp_path / "x.jsonl"))
    with pytest.raises(InputError, match="no such file"):
        passages(str(tmp_path / "absent.json"))


def test_a_missing_column_is_named_with_those_found(tmp_path):
    file = parquet(tmp_path / "p.parquet", id=["a"], contents=["x"])
    with pytest.raises(
        InputError, match=r"p\.parquet: no column 'text' among id, contents.*corpus\.columns=\{text: yours\}"
    ):
        passages(file)
    with pytest.raises(InputError, match="'body'"):
        passages(file, columns={"text": "body"})
    file = parquet(tmp_path / "q.parquet", qid=["a"], question=["x"], gold=["x"])
    with pytest.raises(InputError, match=r"neither an answer nor a gold passage; .*positive_ids: yours"):
        questions(file)
    with pytest.raises(InputError, match=r"q\.parquet: no column 'asked' among qid, question, gold"):
        questions(file, columns={"question": "asked"})
    # One mapping serves training and dev questions: a column that not all have may be mapped.
    mapped = {"positive_ids": "gold", "answers": "none"}
    assert questions(file, columns=mapped)[0].positive_ids == ("x",)
    file = jsonl(tmp_path / "q.jsonl", {"qid": "1"})
    with pytest.raises(InputError, match=r"q\.jsonl row 1: no column 'question' among qid"):
        questions(file)


def test_a_column_of_ours_that_does_not_exist_is_a_typing_error(tmp_path):
    file = parquet(tmp_path / "p.parquet", id=["a"], text=["x"])
    with pytest.raises(InputError, match=r"corpus\.columns.*'txt'.*id, title, text"):
        passages(file, columns={"txt": "text"})


def test_rows_of_passages_that_cannot_be(tmp_path):
    file = parquet(tmp_path / "l.parquet", id=["a"], text=[["x"]])
    with pytest.raises(InputError, match=r"column 'text' is list"):
        passages(file)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answers": []}, r"row 2 \(question 2\): no answer"),
        ({"answers": None}, "no answer"),
        ({"answers": [" "]}, "no answer"),
        ({"answers": {"text": ["x"]}}, "answers are texts"),
        ({"positive_ids": []}, "no positive passage"),
        ({"question": " "}, "no qid or no question"),
        ({"qid": None}, "no qid"),
        ({"answer_starts": [1, 2]}, "2 answer_starts for 1 answer;"),
        ({"answer_starts": ["1"]}, "whole numbers"),
        ({"relevance": [1, 2]}, "2 relevance for 1 positive_ids"),
        ({"relevance": [0]}, "relevance are whole numbers above 0"),
        ({"relevance": [1.5]}, "relevance are whole numbers above 0"),
        ({"relevance": [True]}, "relevance are whole numbers above 0"),
        ({"positive_ids": ["a", "a"], "relevance": [1, 2]}, "passage a has relevance 1 and 2"),
    ],
)
def test_rows_of_questions_that_cannot_be(tmp_path, change, message):
    row = {"qid": "2", "question": "Who?", "answers": ["I"], "positive_ids": ["a"], "answer_starts": [0]}
    file = jsonl(tmp_path / "q.jsonl", {**row, "qid": "1"}, {**row, **change})
    with pytest.raises(InputError, match=message) as error:
        questions(file)
    assert "q.jsonl row 2" in str(error.value)


def test_squads_unanswerable_questions_are_refused(tmp_path):
    squad = json.loads(json.dumps(SQUAD))
    squad["data"][0]["paragraphs"][0]["qas"][0]["answers"] = []
    (tmp_path / "v2.json").write_text(json.dumps(squad))
    with pytest.raises(InputError, match=r"v2\.json row 1 \(question q1\).*SQuAD 2\.0"):
        questions(str(tmp_path / "v2.json"))


@pytest.mark.parametrize("group", [1000, 20_000])
def test_of_a_large_parquet_file_a_piece_is_held(tmp_path, group):
    """40 MB, in row groups or, as some tools write a whole corpus, in one."""
    texts = [os.urandom(1000).hex() for _ in range(20_000)]
    table = pa.table({"id": [str(number) for number in range(20_000)], "text": texts})
    pq.write_table(table, tmp_path / "p.parquet", row_group_size=group, use_dictionary=False)
    del texts
    before, rows, held = pa.total_allocated_bytes(), 0, 0
    tracemalloc.start()
    for part in passage_tables(str(tmp_path / "p.parquet")):
        rows += part.num_rows
        held = max(held, pa.total_allocated_bytes() - before)
    held += tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows == 20_000 and held < 15 << 20


@pytest.mark.parametrize("column", ["text", "title"])
@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2], "int64"),
        ([1.5, None], "double"),
        ([True, False], "bool"),
        ([["a"], []], "list<element: string>"),
    ],
)
def test_a_text_is_text_and_numbers_may_be_titles(tmp_path, column, values, kind):
    columns = {"id": [7, 8], "title": ["", ""], "text": ["one", "two"], column: values}
    file = parquet(tmp_path / "p.parquet", **columns)
    if column == "title" and kind in ("int64", "double"):
        assert [row["title"] for row in passages(file)] == [
            "" if value is None else str(value) for value in values
        ]
        return
    with pytest.raises(InputError, match=rf"p\.parquet: column '{column}' is {kind}, not text"):
        passages(file)


def test_a_column_of_nulls_is_text_that_is_missing(tmp_path):
    file = parquet(tmp_path / "p.parquet", id=["a"], text=pa.nulls(1))
    assert passages(file) == [{"id": "a", "title": "", "text": ""}]


NAN = float("nan")


def test_nan_is_missing_and_never_the_text_nan(tmp_path):
    """`json.dumps` of pandas' missing values writes NaN."""
    rows = [
        {"id": "a", "title": NAN, "text": "x", "url": NAN},
        {"id": "b", "title": "B", "text": "y", "url": "u"},
        {"id": 3.0, "title": 4, "text": "z", "url": NAN},
    ]
    found = passages(jsonl(tmp_path / "p.jsonl", *rows))
    assert [row["title"] for row in found] == ["", "B", "4"]
    assert [row["url"] for row in found] == [None, "u", None]
    only = passages(jsonl(tmp_path / "o.jsonl", {"id": "a", "title": NAN, "text": NAN}))
    assert only == [{"id": "a", "title": "", "text": ""}], "split says that it has no text"
    numbers = parquet(tmp_path / "p.parquet", id=["a", "b"], title=[NAN, 2.0], text=["x", "y"])
    assert [row["title"] for row in passages(numbers)] == ["", "2"]


def test_nan_in_questions_is_missing_too(tmp_path):
    row = {"qid": "q", "question": "x?", "answers": ["a", NAN], "positive_ids": "p", "answer_starts": NAN}
    assert questions(jsonl(tmp_path / "q.jsonl", row)) == [Question("q", "x?", ("a",), None, ("p",))]
    for name in ("qid", "question"):
        with pytest.raises(InputError, match="no qid or no question"):
            questions(jsonl(tmp_path / "n.jsonl", {**row, name: NAN}))


@pytest.mark.parametrize("others", [[], ["a title"]])
@pytest.mark.parametrize("value", [True, False])
def test_a_truth_value_is_no_title_and_no_id(tmp_path, value, others):
    for column in ("id", "title"):
        rows = [
            {"id": f"p{n}", "title": "t", "text": "x", column: shown}
            for n, shown in enumerate([value, *others])
        ]
        with pytest.raises(InputError, match=rf"p\.jsonl.*{column}'.*(is bool, not text|differ in type)"):
            passages(jsonl(tmp_path / "p.jsonl", *rows))


@pytest.mark.parametrize(
    "change", [{"qid": True}, {"question": True}, {"answers": [True]}, {"positive_ids": False}]
)
def test_a_truth_value_is_no_text_of_a_question(tmp_path, change):
    row = {"qid": "q", "question": "x?", "answers": ["a"], "positive_ids": "p"} | change
    with pytest.raises(InputError, match=rf"q\.jsonl row 1.*{next(iter(change))} (is a text|are texts), not"):
        questions(jsonl(tmp_path / "q.jsonl", row))


@pytest.mark.parametrize(("title", "read"), [(None, ""), ("A_b", "A b")])
def test_the_title_of_a_squad_article_may_be_missing(tmp_path, title, read):
    (tmp_path / "s.json").write_text(json.dumps({"data": [{**SQUAD["data"][0], "title": title}]}))
    assert passages(str(tmp_path / "s.json"))[0]["title"] == read


def test_the_title_of_a_squad_article_is_a_text(tmp_path):
    (tmp_path / "s.json").write_text(json.dumps({"data": [{**SQUAD["data"][0], "title": True}]}))
    with pytest.raises(InputError, match="not SQuAD's JSON"):
        passages(str(tmp_path / "s.json"))
