"""The formats of others' files, with the quirks that their real files have."""

import csv
import gzip
import json
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from multiview.config import DataFormat
from multiview.data.reading.formats import FORMATS, detect
from multiview.errors import InputError
from tests.fixtures.format_files import jsonl, passages, put, questions


def test_the_setting_knows_the_formats():
    assert set(get_args(DataFormat)) == {"auto", *(FORMATS.keys() - {"qrels", "triples"})}


@pytest.mark.parametrize(
    ("name", "content", "form"),
    [
        ("a.json", '{"version": "1.1", "data": []}', "squad"),
        ("a.JSON", '{\n "data": []}', "squad"),
        ("a.json", ' \n[{"question": "?", "positive_ctxs": []}]', "dpr"),
        ("lines.json", '{"id": "a", "text": "x"}\n{"id": "b", "text": "y"}\n', "jsonl"),
        ("a.jsonl", "", "jsonl"),
        ("a.ndjson", "", "jsonl"),
        ("a.csv", "id,text\n1,x\n", "csv"),
        ("nq-test.csv", "who sings it\t['Linda Davis']\n", "qa"),
        ("trivia-test.qa.csv", 'Who was it?\t"[""A"", ""B \'C\'""]"\r\n', "qa"),
        ("psgs_w100.tsv", 'id\ttext\ttitle\n1\t"x"\tT\n', "tsv"),
        ("mine.tsv", "number\tcontent\n1\tx\n", "tsv"),
        ("mine.tsv", "intro\tOnce\nend\tAfter\n", "marco"),
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


WORDS = st.text(
    st.characters(codec="utf-8", exclude_categories=["C", "Z"], exclude_characters="[]"),
    min_size=1,
    max_size=8,
)
IDS = st.lists(WORDS, min_size=1, max_size=6, unique=True)
TEXTS = st.lists(WORDS, min_size=1, max_size=4).map(" ".join)


@st.composite
def collections(draw: st.DrawFn) -> tuple[list[dict], list[dict]]:
    """Passages, and questions with answers about some of them."""
    ids, qids = draw(IDS), draw(IDS)
    rows = [{"id": id_, "title": draw(TEXTS), "text": f"{id_} {draw(TEXTS)}"} for id_ in ids]
    asked = [
        {
            "qid": qid,
            "question": draw(TEXTS),
            "answers": draw(st.lists(TEXTS, min_size=1, max_size=3)),
            "positive_ids": draw(st.lists(st.sampled_from(ids), min_size=1, max_size=2, unique=True)),
        }
        for qid in qids
    ]
    return rows, asked


@settings(max_examples=60, deadline=None)
@given(
    collections(), st.sampled_from(["parquet", "jsonl", "csv", "tsv", "squad", "dpr", "tevatron", "marco"])
)
@example(
    (
        [{"id": "#p", "title": "t", "text": "#p x"}],
        [{"qid": "#", "question": "?", "answers": ["x"], "positive_ids": ["#p"]}],
    ),
    "marco",
)
def test_what_is_written_in_any_format_is_read(tmp_path_factory, collection, form):
    """As far as the format holds it: SQuAD's and DPR's files bring the passages of their questions, MS MARCO's have no titles."""
    folder, (rows, asked) = tmp_path_factory.mktemp(form), collection
    file, about = written(folder, rows, asked, form)
    by_id = {row["id"]: row for row in rows}
    found = {row["id"]: row for row in passages(*file, form=form)}
    if form in ("dpr", "tevatron"):
        rows = [by_id[id_] for id_ in dict.fromkeys(id_ for row in asked for id_ in row["positive_ids"])]
    if form == "squad":
        assert [row["text"] for row in found.values()] == list(
            dict.fromkeys(by_id[row["positive_ids"][0]]["text"] for row in asked)
        )
    else:
        assert list(found.values()) == [row | ({"title": ""} if form == "marco" else {}) for row in rows]
    read = questions(*about, form=form)
    assert [question.question for question in read] == [row["question"] for row in asked]
    for number, (question, row) in enumerate(zip(read, asked, strict=True), 1):
        assert question.qid == (f"q-{number}" if form == "dpr" else row["qid"])
        assert question.answers == (() if form == "marco" else tuple(row["answers"]))
        positives = [by_id[id_]["text"] for id_ in row["positive_ids"]]
        assert [found[id_]["text"] for id_ in question.positive_ids] == positives[
            : 1 if form == "squad" else 2
        ]


CELLS = st.lists(st.one_of(st.just(""), TEXTS), min_size=3, max_size=3)


@settings(max_examples=60, deadline=None)
@given(st.lists(CELLS, min_size=2, max_size=6), st.permutations(["id", "title", "text"]), st.data())
def test_no_row_of_a_tsv_is_lost_between_quotes(tmp_path_factory, rows, header, data):
    ends = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=2, max_size=2, unique=True))
    (first, last), at = sorted(ends), data.draw(st.integers(0, 2))
    rows = [[cell.replace('"', "'") for cell in row] for row in rows]
    rows[first][at], rows[last][at] = f'"{rows[first][at]}', f'{rows[last][at]}"'
    file = tmp_path_factory.mktemp("quotes") / "p.tsv"
    file.write_text("".join("\t".join(row) + "\n" for row in (header, *rows)))
    with pytest.raises(InputError, match="a cell holds whole lines|repeats the header|quotes within it"):
        passages(str(file))


def written(folder: Path, rows: list[dict], asked: list[dict], form: str) -> tuple[list[str], list[str]]:
    """Files of the passages and of the questions."""
    by_id = {row["id"]: row for row in rows}

    def contexts(row: dict, name: str) -> list[dict]:
        given = (by_id[id_] for id_ in row["positive_ids"])
        return [{name: each["id"], "title": each["title"], "text": each["text"]} for each in given]

    if form == "parquet":
        for name, table in (("p", rows), ("q", asked)):
            pq.write_table(pa.Table.from_pylist(table), folder / f"{name}.parquet")
    elif form == "jsonl":
        return [jsonl(folder / "p.jsonl", *rows)], [jsonl(folder / "q.jsonl", *asked)]
    elif form in ("csv", "tsv"):
        for name, table in (("p", rows), ("q", asked)):
            with (folder / f"{name}.{form}").open("w", newline="") as stream:
                writer = csv.DictWriter(stream, list(table[0]), delimiter="," if form == "csv" else "\t")
                writer.writeheader()
                for row in table:
                    cells = {key: json.dumps(v) if isinstance(v, list) else v for key, v in row.items()}
                    writer.writerow(cells)
    elif form == "marco":
        put(folder / "p.tsv", "".join(f"{row['id']}\t{row['text']}\n" for row in rows))
        put(folder / "q.tsv", "".join(f"{row['qid']}\t{row['question']}\n" for row in asked))
        judged = (f"{row['qid']}\t0\t{id_}\t1\n" for row in asked for id_ in row["positive_ids"])
        qrels = put(folder / "qrels.train.tsv", "".join(judged))
        return [str(folder / "p.tsv")], [str(folder / "q.tsv"), qrels]
    elif form == "tevatron":
        lines = [
            {"query_id": row["qid"], "query": row["question"], "answers": row["answers"]}
            | {"positive_passages": contexts(row, "docid"), "negative_passages": []}
            for row in asked
        ]
        return [jsonl(folder / "q.jsonl", *lines)], [jsonl(folder / "q.jsonl", *lines)]
    else:
        entries = [
            {"question": row["question"], "answers": row["answers"], "positive_ctxs": contexts(row, "psg_id")}
            for row in asked
        ]
        articles = [{"paragraphs": [squad_paragraph(row, by_id)]} for row in asked]
        file = put(folder / "q.json", json.dumps(entries if form == "dpr" else {"data": articles}))
        return [file], [file]
    return [str(folder / f"p.{form}")], [str(folder / f"q.{form}")]


def squad_paragraph(row: dict, by_id: dict[str, dict]) -> dict:
    answers = [{"text": text, "answer_start": 0} for text in row["answers"]]
    asked = {"id": row["qid"], "question": row["question"], "answers": answers}
    return {"context": by_id[row["positive_ids"][0]]["text"], "qas": [asked]}
