"""Reading the user's files: SQuAD JSON, Parquet and JSONL, through fsspec.

Passages come as Arrow tables with the columns `id, title, text` and the user's own, questions as
`Question`s; both with the place that they came from, for messages.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from multiview.data.questions import Question
from multiview.data.sources import base_name, file_format
from multiview.errors import InputError

PASSAGE_COLUMNS = ("id", "title", "text")
DERIVED_COLUMNS = ("sentence_ends", "content_hash")
QUESTION_COLUMNS = ("qid", "question", "answers", "answer_starts", "positive_ids")
BATCH = 1000
"""Rows read at a time."""


def passage_tables(
    file: str, form: str = "auto", columns: Mapping[str, str] | None = None
) -> Iterator[pa.Table]:
    """The passages of one file in order, up to 1000 rows at a time.

    Tables have `id, title, text` (strings, never null; no title reads as an empty one), then the
    file's further columns. `columns` names the file's columns: ours to theirs. SQuAD paragraphs get
    ids derived from their text, so that one paragraph has one id in every file; a paragraph that
    occurs again comes again. Raises InputError for a file that cannot be read as what it should be.
    """
    names = _mapping("corpus.columns", columns, PASSAGE_COLUMNS)
    match file_format(file, form, "corpus.format"):
        case "squad":
            rows = (
                {"id": squad_id(paragraph["context"]), "title": title, "text": paragraph["context"]}
                for title, paragraph in _squad_paragraphs(file)
            )
            tables = (table for table, _ in _tables_of_rows(rows, file))
        case "jsonl":
            tables = (table for table, _ in _tables_of_rows(_json_lines(file), file))
        case _:
            tables = _parquet_tables(file)
    first = 0
    for table in tables:
        yield _as_passages(table, names, file, first)
        first += table.num_rows


def questions_of(
    file: str, form: str = "auto", columns: Mapping[str, str] | None = None
) -> Iterator[tuple[int, Question]]:
    """The questions of one file in order, each with its row number, from 1.

    `positive_ids` and `answers` may be lists or single strings; `answer_starts` may be missing.
    Raises InputError for a file that cannot be read, and naming the row for a question that has no
    answer, no positive passage, or offsets that do not pair with its answers.
    """
    names = _mapping("questions.columns", columns, QUESTION_COLUMNS)
    number = 0
    match file_format(file, form, "questions.format"):
        case "squad":
            for _, paragraph in _squad_paragraphs(file):
                for row in _squad_questions(file, paragraph):
                    number += 1
                    yield number, _question(row, file, number)
        case "jsonl":
            for row in _json_lines(file):
                number += 1
                found = {ours: row[theirs] for ours, theirs in names.items() if theirs in row}
                _require(
                    found,
                    names,
                    ("qid", "question", "answers", "positive_ids"),
                    row,
                    f"{base_name(file)} row {number}",
                    "questions.columns",
                )
                yield number, _question(found, file, number)
        case _:
            for table in _parquet_tables(file, tuple(names.values())):
                found = {
                    ours: theirs for ours, theirs in names.items() if theirs in table.column_names
                }
                _require(
                    found,
                    names,
                    ("qid", "question", "answers", "positive_ids"),
                    table.column_names,
                    base_name(file),
                    "questions.columns",
                )
                lists = [table.column(theirs).to_pylist() for theirs in found.values()]
                for values in zip(*lists, strict=True):
                    number += 1
                    yield number, _question(dict(zip(found, values, strict=True)), file, number)


def squad_id(context: str) -> str:
    """A paragraph's id, from its text alone."""
    return "sq-" + hashlib.sha1(context.encode("utf-8", "surrogatepass")).hexdigest()[:14]


def _mapping(
    setting: str, columns: Mapping[str, str] | None, ours: Sequence[str]
) -> dict[str, str]:
    """Each of our columns to theirs."""
    if unknown := set(columns or {}) - set(ours):
        raise InputError(
            f"{setting}: no column {sorted(unknown)[0]!r} is known here; there are {', '.join(ours)}"
        )
    return {name: (columns or {}).get(name, name) for name in ours}


def _require(
    found: Any,
    names: Mapping[str, str],
    required: Sequence[str],
    present: Any,
    where: str,
    setting: str,
) -> None:
    for name in required:
        if name not in found:
            raise InputError(
                f"{where}: no column {names[name]!r} among {', '.join(map(str, present)) or 'none'}; "
                f"name the right one, as in {setting}={{{name}: yours}}"
            )


def _as_passages(table: pa.Table, names: Mapping[str, str], file: str, first: int) -> pa.Table:
    """Our three columns as strings, then the rest."""
    found = {ours for ours, theirs in names.items() if theirs in table.column_names}
    _require(found, names, ("id", "text"), table.column_names, base_name(file), "corpus.columns")
    ours: dict[str, Any] = {}
    for name in PASSAGE_COLUMNS:
        if name not in found:
            ours[name] = pa.array([""] * table.num_rows, pa.string())
            continue
        column = table.column(names[name])
        try:
            ours[name] = column.cast(pa.string())
        except pa.ArrowException:
            raise InputError(
                f"{base_name(file)}: column {names[name]!r} is {column.type}, not text; see corpus.columns"
            ) from None
        if name == "title":
            ours[name] = ours[name].fill_null("")
        elif ours[name].null_count:
            row = first + 1 + ours[name].is_null().to_pylist().index(True)
            raise InputError(f"{base_name(file)} row {row}: no {name}; every passage needs one")
    taken = {*names.values(), *PASSAGE_COLUMNS, *DERIVED_COLUMNS}
    rest = {name: table.column(name) for name in table.column_names if name not in taken}
    return pa.table(ours | rest)


def _question(row: Mapping[str, Any], file: str, number: int) -> Question:
    """A checked question of a row with our column names."""
    where = f"{base_name(file)} row {number}"
    if row["qid"] is None or not str(row["question"] or "").strip():
        raise InputError(f"{where}: no qid or no question; every row needs both")
    qid = str(row["qid"])
    where = f"{where} (question {qid})"
    answers = _strings(row["answers"])
    if not any(answer.strip() for answer in answers):
        raise InputError(
            f"{where}: no answer; a question needs one to be trained and evaluated on: "
            "leave the row out (also SQuAD 2.0's unanswerable questions)"
        )
    positives = tuple(dict.fromkeys(_strings(row["positive_ids"])))
    if not positives:
        raise InputError(
            f"{where}: no positive passage; leave the row out or name one in positive_ids"
        )
    starts = row.get("answer_starts")
    if starts is not None:
        starts = tuple(int(start) for start in ([starts] if isinstance(starts, int) else starts))
        if len(starts) != len(answers):
            raise InputError(
                f"{where}: {len(starts)} answer_starts for {len(answers)} answers; "
                "give one for each answer, or null"
            )
    return Question(qid, str(row["question"]), answers, starts, positives)


def _strings(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    values = [value] if isinstance(value, str | int) else value
    return tuple(str(item) for item in values if item is not None)


@contextlib.contextmanager
def opened(file: str, compression: str | None = "infer") -> Iterator[IO[bytes]]:
    """A file of bytes behind any fsspec URL; what goes wrong with it becomes an InputError."""
    try:
        with fsspec.open(file, "rb", compression=compression) as stream:
            yield stream  # type: ignore[misc]
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{file}: no such file") from None
    except (
        pa.ArrowException,
        EOFError,
        OSError,
        UnicodeDecodeError,
        json.JSONDecodeError,
    ) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"{file}: cannot be read ({reason}); is it whole, and of the format its name says?"
        ) from None


def _squad_paragraphs(file: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(title, paragraph) of a SQuAD file, which is parsed whole. Underscores of titles are spaces."""
    with opened(file) as stream:
        content = json.load(stream)
    try:
        articles = content["data"]
        paragraphs = [
            (str(article.get("title", "")).replace("_", " "), paragraph)
            for article in articles
            for paragraph in article["paragraphs"]
        ]
        for _, paragraph in paragraphs:
            paragraph["context"], paragraph["qas"]
    except (KeyError, TypeError, AttributeError):
        raise InputError(
            f"{file}: not SQuAD's JSON (data, paragraphs, context, qas); "
            "one JSON object a line is read with the suffix .jsonl"
        ) from None
    yield from paragraphs


def _squad_questions(file: str, paragraph: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for entry in paragraph["qas"]:
        try:
            yield {
                "qid": entry["id"],
                "question": entry["question"],
                "answers": [answer["text"] for answer in entry["answers"]],
                "answer_starts": [answer["answer_start"] for answer in entry["answers"]],
                "positive_ids": squad_id(paragraph["context"]),
            }
        except (KeyError, TypeError):
            raise InputError(
                f"{file}: question {str(entry)[:80]!r} is not SQuAD's (id, question, answers with text and answer_start)"
            ) from None


def _json_lines(file: str) -> Iterator[dict[str, Any]]:
    with opened(file) as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise InputError(
                    f"{file} line {number}: not JSON ({error}); one object a line is expected"
                ) from None
            if not isinstance(row, dict):
                raise InputError(
                    f"{file} line {number}: not a JSON object; one object a line is expected"
                )
            yield row


def _tables_of_rows(rows: Iterator[dict[str, Any]], file: str) -> Iterator[tuple[pa.Table, int]]:
    """Tables of up to 1000 rows, and the number of their first row, from 0."""
    first = 0
    batch: list[dict[str, Any]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == BATCH:
            yield _table(batch, file, first), first
            first += len(batch)
            batch = []
    if batch:
        yield _table(batch, file, first), first


def _table(rows: Sequence[dict[str, Any]], file: str, first: int) -> pa.Table:
    columns = dict.fromkeys(
        name for row in rows for name in row
    )  # from_pylist looks at the first row only
    try:
        return pa.table({name: pa.array([row.get(name) for row in rows]) for name in columns})
    except (pa.ArrowException, OverflowError) as error:
        raise InputError(
            f"{base_name(file)} rows {first + 1}-{first + len(rows)}: values of one column differ in type ({error})"
        ) from None


def _parquet_tables(file: str, only: Sequence[str] | None = None) -> Iterator[pa.Table]:
    with opened(file, compression=None) as stream, pq.ParquetFile(stream) as parquet:
        present = parquet.schema_arrow.names
        columns = present if only is None else [name for name in present if name in only]
        if only is not None and len(columns) == 0:
            raise InputError(
                f"{base_name(file)}: none of the columns {', '.join(only)} among {', '.join(present)}"
            )
        for batch in parquet.iter_batches(batch_size=BATCH, columns=columns):
            yield pa.Table.from_batches([batch]).replace_schema_metadata(None)
