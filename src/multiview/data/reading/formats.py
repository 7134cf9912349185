"""The formats that are read: the one table of them, and how a file's is told."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from multiview.data.reading import tables
from multiview.data.reading.articles import text_articles
from multiview.data.reading.dpr import dpr_contexts, dpr_questions, qa_questions
from multiview.data.reading.files import base_name, head, is_web, plain_name
from multiview.data.reading.judged import is_qrels, marco_rows
from multiview.data.reading.squad import squad_passages, squad_questions
from multiview.errors import InputError

Rows = Callable[[str], Iterator[dict[str, Any]]]
Tables = Callable[[str], Iterator[pa.Table]]


@dataclass(frozen=True)
class Format:
    """How files of one format are read, under our column names or the file's own."""

    about: str
    passages: Tables | None
    """Tables of up to 1000 rows."""
    questions: Rows | None
    repeats: bool = False
    """Whether a passage may come again: its id says what it holds."""
    named: bool = False
    """Whether the file names its columns, which `columns` may map to ours."""


def _tables(rows: Rows) -> Tables:
    return lambda file: tables.tables_of_rows(rows(file), file)


_csv = partial(tables.delimited_rows, delimiter=",")
_tsv = partial(tables.delimited_rows, delimiter="\t")

FORMATS = {
    "squad": Format("SQuAD's JSON", _tables(squad_passages), squad_questions, repeats=True),
    "dpr": Format("DPR's JSON of training questions", _tables(dpr_contexts), dpr_questions, repeats=True),
    "qa": Format("DPR's questions with lists of answers (*.qa.csv)", None, qa_questions),
    "marco": Format(
        "MS MARCO's TSV of id and text, without header",
        _tables(partial(marco_rows, name="text")),
        partial(marco_rows, name="question"),
    ),
    "parquet": Format("Parquet", tables.parquet_tables, tables.parquet_rows, named=True),
    "jsonl": Format(
        "a JSON object a line, as BEIR's", _tables(tables.json_lines), tables.json_lines, named=True
    ),
    "csv": Format("CSV with a header", _tables(_csv), _csv, named=True),
    "tsv": Format("TSV with a header, as DPR's passages", _tables(_tsv), _tsv, named=True),
    "text": Format("text, an article a file", _tables(text_articles), None),
}
QRELS = "qrels"
"""What `detect` says of files of judgements; they come with questions of any format."""

SUFFIXES = {
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".txt": "text",
}
HEADER_NAMES = {
    *("id", "_id", "pid", "docid", "text", "title", "passage", "body", "contents"),
    *("qid", "query", "question", "answers", "positive_ids"),
}
"""A TSV whose first line has one of these, in capitals or not, names its columns."""


def suffix_of(file: str) -> str | None:
    """What the name's suffix says, a compression's apart; none for other names and for hidden files."""
    name = plain_name(file)
    if name.startswith((".", "_")):
        return None
    return next((said for suffix, said in SUFFIXES.items() if name.endswith(suffix)), None)


def detect(file: str, form: str, setting: str, theirs: Collection[str] = ()) -> str:
    """The format of a file: `form`, unless it is `auto`; or QRELS, whatever `form` says.

    It goes by the name and, where that leaves several, by the first lines. `theirs` are names of
    columns that the file may have. Raises InputError when neither says it.
    """
    said = suffix_of(file)
    if said in ("jsonl", "parquet"):
        return form if form != "auto" else said
    beginning = head(file)
    first = next(iter(beginning.splitlines()), "")
    # An article may begin with four words of which two are numbers.
    if said != "json" and is_qrels(first) and (said != "text" or "qrels" in base_name(file).lower()):
        return QRELS
    if form != "auto":
        return form
    match said:
        case "json":
            return _json(beginning)
        case "csv" | "tsv":
            return _delimited(file, first, said, {*HEADER_NAMES, *theirs})
        case str():
            return said
    raise InputError(
        f"{file}: its name does not say its format; set {setting} to one of {', '.join(FORMATS)}"
        + (", or end the address of a folder with /" if is_web(file) else "")
    )


def _json(beginning: str) -> str:
    """DPR's is a list, SQuAD's one object; many a JSONL file is called .json too."""
    text = beginning.lstrip()
    if text.startswith("["):
        return "dpr"
    line, _, rest = text.partition("\n")
    try:
        whole = json.loads(line)
    except ValueError:
        # An object over several lines, or a line longer than what is looked at.
        return "squad" if rest or '"data"' in line else "jsonl"
    return "jsonl" if isinstance(whole, dict) and "data" not in whole else "squad"


def _delimited(file: str, first: str, said: str, known: set[str]) -> str:
    """With a header or without; DPR's questions are called .csv and have tabs."""
    columns = next(csv.reader([first], delimiter="\t"), [])
    if len(columns) == 2 and isinstance(tables.listed(columns[1]), list):
        return "qa"
    if said == "tsv" and len(columns) == 2 and not known & {*columns, *map(str.lower, columns)}:
        return "marco"
    if plain_name(file).endswith(".qa.csv"):
        raise InputError(
            f"{base_name(file)}: not DPR's question, tab and list of answers; its first line is {first[:80]!r}"
        )
    return said
