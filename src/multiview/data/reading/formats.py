"""The table of supported file formats, and the detection of a file's format."""

import contextlib
import csv
import json
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

import pyarrow as pa

from multiview.data.reading.articles import text_articles
from multiview.data.reading.columns import PASSAGE_COLUMNS, QUESTION_COLUMNS
from multiview.data.reading.delimited import DELIMITERS, cells, delimited_rows, parse_list
from multiview.data.reading.files import base_name, head, is_parquet, is_web, plain_name
from multiview.data.reading.json_rows import json_items, rows_of
from multiview.data.reading.parquet import parquet_names, parquet_rows, parquet_tables
from multiview.data.reading.qrels import is_qrels, is_triples, judges, marco_rows, says_qrels
from multiview.data.reading.tables import Row, tables_of_rows
from multiview.data.reading.training_files import (
    Entry,
    qa_questions,
    shape_of,
    squad_entries,
    training_entries,
)
from multiview.errors import InputError

Rows = Callable[[str], Iterator[Row]]
Tables = Callable[[str], Iterator[pa.Table]]


@dataclass(frozen=True)
class Format:
    """Readers of one file format, which yield our column names or the file's own."""

    about: str
    passages: Tables | None
    """Tables of up to 1000 rows."""
    questions: Rows | None
    """A format without passages and questions is a companion: it adds to the questions of another file."""
    repeats: bool = False
    """Whether a passage may occur repeatedly, because its id is derived from its content."""
    names_columns: bool = False
    """Whether the file names its columns, so that `columns` can map them to ours."""

    @property
    def is_companion(self) -> bool:
        return self.passages is self.questions is None


def _tables(rows: Rows) -> Tables:
    return lambda file: tables_of_rows(rows(file), file)


def _named(about: str, rows: Rows) -> Format:
    return Format(about, _tables(rows), rows, names_columns=True)


def _training(about: str, entries: Callable[[str], Iterator[Entry]]) -> Format:
    return Format(
        about,
        _tables(lambda file: (passage for passages, _ in entries(file) for passage in passages)),
        lambda file: (question for _, questions in entries(file) for question in questions),
        repeats=True,
    )


FORMATS = {
    "squad": _training("SQuAD's JSON", squad_entries),
    "dpr": _training("DPR's JSON of training questions", training_entries),
    "tevatron": _training("tevatron's JSONL of training questions", training_entries),
    "flagembedding": _training("FlagEmbedding's JSONL of training questions", training_entries),
    "qa": Format("DPR's questions with lists of answers (*.qa.csv)", None, qa_questions),
    "marco": Format(
        "MS MARCO's TSV of id and text, without header",
        _tables(partial(marco_rows, name="text")),
        partial(marco_rows, name="question"),
    ),
    "parquet": Format("Parquet", parquet_tables, parquet_rows, names_columns=True),
    "jsonl": _named("one JSON object per line, as in BEIR", rows_of),
    "csv": _named("CSV with a header", partial(delimited_rows, delimiter=",")),
    "tsv": _named("TSV with a header, as DPR's passages", partial(delimited_rows, delimiter="\t")),
    "text": Format("text, one article per file", _tables(text_articles), None),
    "qrels": Format("judgements (qrels)", None, None),
    "triples": Format("triples of ids", None, None),
}
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
TAB = "\t"
OBJECT = re.compile(r'[\[\s]*\{\s*"')
NAME = re.compile(r"[^\W\d]+([ .-][^\W\d]+){0,2}")
"""A cell that may be the name of a column."""
METADATA = re.compile(
    r"(readme|licen[cs]e|notice|citation|changelog|requirements|checksums?|(md5|sha\d+)(sums?)?)(\.\w+)*|"
    r"(dataset_infos?|dataset_dict|dataset-metadata|datapackage|manifest|config|state|croissant)\.json"
)
"""Names of files that describe data instead of holding it; in a folder they are skipped."""
HEADER_NAMES = {
    name
    for columns in (PASSAGE_COLUMNS, QUESTION_COLUMNS)
    for own, others in columns.items()
    for name in (own, *others)
} | {"query"}
"""A TSV has a header if its first line holds one of these names, in any case."""


def format_by_suffix(file: str) -> str | None:
    """Returns the format for a name's suffix, compression suffixes aside; None for other suffixes and hidden files."""
    name = plain_name(file)
    if name.startswith((".", "_")):
        return None
    return next((form for suffix, form in SUFFIXES.items() if name.endswith(suffix)), None)


def is_metadata(file: str) -> bool:
    """Whether a file's name is that of a description of the data around it, such as a README."""
    return METADATA.fullmatch(plain_name(file)) is not None


def detect(
    file: str, form: str, setting: str, known_columns: Collection[str] = (), looks_inside: bool = True
) -> str:
    """Returns the format of a file: `form`, unless that is `auto` or the file is a companion.

    `known_columns` are names of columns that the file may have. A .parquet file is not opened if it is on the web, or
    without `looks_inside`. Raises InputError if the format stays unknown, and for a table without its header.
    """
    by_suffix = format_by_suffix(file)
    if says_qrels(file):
        return "qrels"
    if by_suffix == "parquet" and (form != "auto" or is_web(file) or not looks_inside):
        return form if form != "auto" else by_suffix
    if by_suffix == "parquet":
        return shape_of(parquet_names(file), known_columns) or by_suffix
    beginning = head(file)
    if is_parquet(beginning):
        if form == "auto" or FORMATS[form].names_columns:
            return shape_of(parquet_names(file), known_columns) or "parquet"
        return form
    first = re.split("[\r\n]", beginning, maxsplit=1)[0]
    if by_suffix in DELIMITERS and re.fullmatch('"?sep=.?"?', first, re.IGNORECASE):
        raise InputError(
            f"{file}: remove the line {first}, which only Excel reads; cells of a .csv are separated by commas, of a .tsv by tabs"
        )
    if by_suffix in DELIMITERS and OBJECT.match(beginning):
        by_suffix = "jsonl"  # whatever it is called
    if by_suffix == "tsv" and is_triples(file, first):
        return "triples"
    if by_suffix not in ("json", "text") and is_qrels(first):  # articles may begin with such words
        return "qrels"
    if form not in ("auto", *DELIMITERS):
        return form
    known = HEADER_NAMES.union(*({name.lower(), name.lower().partition(".")[0]} for name in known_columns))
    match by_suffix if form == "auto" else form:
        case "json" | "jsonl" as by_suffix:
            return _json(file, beginning, first, by_suffix, known_columns)
        case "csv" | "tsv" as by_suffix:
            found = _delimited(file, first, by_suffix, known) if form == "auto" else form
            if found == "marco" and _begins_with_header(beginning):
                raise InputError(
                    f"{file} line 1: looks like a header ({', '.join(first.split(TAB))}); map its columns to ours with "
                    f"{setting.replace('format', 'columns')}, or set {setting}=marco if it is data"
                )
            mark = DELIMITERS.get(found)
            names = next(csv.reader([first], delimiter=mark), []) if mark else []
            if form == "auto" and shape_of(names, known_columns) == "flagembedding":
                return "flagembedding"
            is_nameless = known.isdisjoint(map(str.lower, names))
            if mark and names and is_nameless and len(list(islice(cells(file, mark), 2))) == 1:
                line = f"its only line is no header ({first:.80}); add one, or leave the file out"
                raise InputError(f"{file}: {line}")
            return found
        case "text" if _is_table(beginning):
            line = f"rows, not an article; call it .tsv, .csv or .jsonl, or set {setting}=text if it is one"
            raise InputError(f"{file}: {line}")
        case str() as name:
            return name
    forms = ", ".join(name for name in FORMATS if not FORMATS[name].is_companion)
    folder = ", or end the address of a folder with /" if is_web(file) else ""
    raise InputError(f"{file}: its name does not say its format; set {setting} to one of {forms}{folder}")


def _json(file: str, beginning: str, first: str, by_suffix: str, known: Collection[str]) -> str:
    """Returns the format of a file of JSON: a list of objects, one per line, or SQuAD's one object."""
    if is_metadata(file):
        raise InputError(f"{file}: describes data; name the files beside it, or set corpus.format=jsonl")
    text = beginning.lstrip()
    if text.startswith("["):
        row = next(json_items(file), {})
        return (shape_of(row, known) or "jsonl") if isinstance(row, dict) else "jsonl"
    try:
        row = json.loads(first)
    except (ValueError, RecursionError):  # an object over several lines, or a very long one
        return "squad" if by_suffix == "json" and (text.count("\n") or '"data"' in first) else "jsonl"
    holds_rows = type(row) is dict and "\n" not in text.strip() and {*map(type, row.values())} <= {dict, list}
    if not isinstance(row, dict) or (by_suffix == "json" and ("data" in row or holds_rows)):
        return "squad" if by_suffix == "json" else "jsonl"  # SQuAD's reader explains what to write instead
    return shape_of(row, known) or ("qrels" if judges(list(row)) else "jsonl")


def _lines(beginning: str) -> list[str]:
    """Returns the first lines of a text; unlike `splitlines`, without those that U+2028 and the like end."""
    return re.split("\r\n|[\r\n]", beginning.rstrip("\r\n"))[:100]


def _begins_with_header(beginning: str) -> bool:
    """Whether the first of several two-column lines, and no other, looks like column names."""
    lines = [line.split(TAB, 1) for line in _lines(beginning)]
    named = [all(map(NAME.fullmatch, cells)) for cells in lines]
    return len(lines) > 1 and named[0] and not any(named[1:])


def _is_table(beginning: str) -> bool:
    """Whether a text looks like a table: JSON objects, a header with names of ours, or lines of an id and a tab."""
    lines = _lines(beginning)
    rows = (re.split(r'"? *[\t,;|\x01] *"?|  +', line.lower().strip(' |"')) for line in lines[:2])
    named = any(len(HEADER_NAMES.intersection(each)) > 1 for each in rows) or bool(OBJECT.match(beginning))
    return named or (len(lines) > 1 and all(re.match(r"\S*\d\S*[\t\x01]", line) for line in lines))


def _delimited(file: str, first: str, by_suffix: str, known: set[str]) -> str:
    """Returns the format of a .csv or .tsv file, with or without a header; DPR's questions are called .csv and have tabs."""
    columns = next(csv.reader([first], delimiter="\t"), [])
    with contextlib.suppress(InputError):
        if len(columns) == 2 and isinstance(parse_list(columns[1], file), list):
            return "qa"
    if by_suffix == "tsv" and len(columns) == 2 and known.isdisjoint(map(str.lower, columns)):
        return "marco"
    if plain_name(file).endswith(".qa.csv"):
        line = f"not DPR's question, tab and list of answers; its first line is {first[:80]!r}"
        raise InputError(f"{base_name(file)}: {line}")
    return by_suffix
