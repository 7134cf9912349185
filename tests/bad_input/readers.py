"""Reading of any bytes as a file of any format, for hypothesis and atheris: a result that holds together, or an InputError."""

from __future__ import annotations

import gzip
import io
import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from multiview.config import Config, Corpus, Questions
from multiview.data.inspection import inspect
from multiview.data.reading.readers import passage_tables, questions_of
from multiview.errors import InputError

PASSAGES = [
    {"id": "p1", "title": "T", "text": "The tower is in Rome. It is old.", "year": 1900, "tags": ["a"]},
    {"id": "p2", "title": None, "text": "東京は日本の首都。\u202eA \ud83d\ude00.", "more": {"x": [1, None]}},
]
QUESTIONS = [
    {"qid": "q1", "question": "Where?", "answers": ["Rome"], "answer_starts": [16], "positive_ids": ["p1"]},
    {"qid": 2, "question": "What?", "answers": ["京", "b"], "positive_ids": ["p2"], "relevance": [2]},
]
CONTEXT = {"title": "T", "text": "In Rome.", "passage_id": "7", "psg_id": 7, "docid": "7"}
DPR = {"question": "q?", "answers": ["Rome"], "positive_ctxs": [CONTEXT], "negative_ctxs": []}
TEVATRON = {"query_id": "1", "query": "q", "answers": [], "positive_passages": [CONTEXT]}
ASKED = {"id": "q", "question": "Where?", "answers": [{"text": "Rome", "answer_start": 3}]}
SQUAD = {"title": "T", "paragraphs": [{"context": "In Rome.", "qas": [ASKED]}]}


def _lines(*rows: object) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _parquet() -> bytes:
    sink = io.BytesIO()
    rows = [{**row, "more": None, "tags": ["a"], "year": 1} for row in PASSAGES]
    pq.write_table(pa.Table.from_pylist([{**row, "text": "text"} for row in rows]), sink)
    return sink.getvalue()


SEEDS: dict[str, bytes] = {
    "passages.jsonl": _lines(*PASSAGES),
    "questions.jsonl": _lines(*QUESTIONS),
    "train.tevatron.jsonl": _lines({**TEVATRON, "negative_passages": [CONTEXT]}),
    "train.flag.jsonl": _lines({"query": "q", "pos": ["In Rome."], "neg": ["In Oslo."]}),
    "hf.squad.jsonl": _lines(
        {**ASKED, "title": "T", "context": "In Rome.", "answers": {"text": ["Rome"], "answer_start": [3]}}
    ),
    "test.qrels.jsonl": _lines({"query-id": "1", "corpus-id": "0", "score": 1}),
    "squad.json": json.dumps({"version": "1.1", "data": [SQUAD]}).encode(),
    "dpr.json": json.dumps([{**DPR, "hard_negative_ctxs": [CONTEXT]}]).encode(),
    "passages.csv": b'id,text,title\r\n1,"a ""b"", c",T\r\n2,"two\nlines",\r\n',
    "psgs.tsv": b'id\ttext\ttitle\n1\tOne.\tT\n2\t"Two\tcells"\tU\n',
    "nq.qa.csv": b'who?\t[\'a\', "b"]\nwhat?\t["c"]\n',
    "collection.tsv": '0\tOne "quote\n1\t二\u2028\n'.encode(),
    "queries.train.tsv": b"1\twho\n2\twhat\n",
    "qrels.train.tsv": b"1\t0\t0\t1\n2 0 1 2\n",
    "beir.qrels.tsv": b"query-id\tcorpus-id\tscore\r\n1\t0\t1\r\n",
    "qidpidtriples.train.tsv": b"1\t0\t1\n2\t1\t0\n",
    "article.txt": "An article.\r\n\r\nOf two paragraphs. 東京。".encode(),
    "passages.jsonl.gz": gzip.compress(_lines(*PASSAGES), mtime=0),
    "passages.parquet": _parquet(),
}
"""An intact file of each format; by its name the format is known."""

WORDS = (
    *(b"\t", b"\n", b"\r", b"\r\n", b"\0", b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\xbd", b"\x1b[31m", b"9" * 30, b"9" * 5000),
    *(b'" \' \\ { } [ ] : , null true NaN -Infinity 1e999 -1 0.5 "" [] {} [[[[ \\ud83d \\udc00 \\u0000 ../ /').split(),
    *("² \u2028".encode().split(b" ")),
    *b"id _id qid text title question answers answer_starts positive_ids relevance negative_ids data paragraphs".split(),
    *b"context qas positive_ctxs query_id docid content_hash".split(),
)  # fmt: skip
"""Pieces that readers look at."""


@dataclass(frozen=True)
class Read:
    """What readers made of a file."""

    passages: int
    questions: int


def read(folder: Path, name: str, content: bytes) -> Read:
    """Reads a file as passages, as questions, and as `multiview inspect` does.

    Raises AssertionError for a result that does not hold together, and for an error of more than one line.
    """
    file = str(folder / name)
    Path(file).write_bytes(content)
    passages = questions = 0
    try:
        for table in passage_tables(file):
            table.validate(full=True)
            assert (
                table.column_names[:3] == ["id", "title", "text"]
                and len(set(table.column_names)) == table.num_columns
            )
            assert all(isinstance(value, str) for column in table.columns[:3] for value in column.to_pylist())
            passages += table.num_rows
    except InputError as error:
        check_line(error)
    try:
        for location, question in questions_of([file]):
            assert location and question.question.strip() and question.question == question.question.strip()
            for text in (
                question.qid,
                question.question,
                *question.answers,
                *question.positive_ids,
                *question.negative_ids,
            ):
                text.encode()
            assert question.answer_starts is None or len(question.answer_starts) == len(question.answers)
            assert len(set(question.positive_ids)) == len(question.positive_ids)
            questions += 1
    except InputError as error:
        check_line(error)
    try:
        inspect(
            Config(corpus=Corpus(source=(file,)), questions=Questions(source=(file,))), lambda number: None
        )
    except InputError as error:
        check_line(error)
    return Read(passages, questions)


def check_line(error: InputError) -> None:
    line = str(error)
    assert len(line.splitlines()) == 1, repr(line)
    assert len(line) < 2000, f"a line of {len(line)} characters"
