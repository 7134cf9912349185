"""Reading the user's files: SQuAD JSON, Parquet and JSONL, through fsspec.

Passages come as Arrow tables with the columns `id, title, text` and the user's own, questions as
`Question`s; both with the place that they came from, for messages.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from multiview.data.formats import (
    json_lines,
    parquet_tables,
    squad_id,
    squad_paragraphs,
    squad_questions,
    tables_of_rows,
)
from multiview.data.questions import Question
from multiview.data.sources import base_name, file_format
from multiview.errors import InputError

PASSAGE_COLUMNS = ("id", "title", "text")
DERIVED_COLUMNS = ("sentence_ends", "content_hash")
QUESTION_NEEDS = ("qid", "question", "answers", "positive_ids")
QUESTION_COLUMNS = ("qid", "question", "answers", "answer_starts", "positive_ids")


def passage_tables(
    file: str, form: str = "auto", columns: Mapping[str, str] | None = None
) -> Iterator[pa.Table]:
    """The passages of one file in order, up to 1000 rows at a time.

    Tables have `id, title, text` (strings, never null; no title reads as an empty one), then the
    file's further columns, but for those that have one of our names. `columns` names the file's columns: ours to theirs. SQuAD paragraphs get
    ids derived from their text, so that one paragraph has one id in every file; a paragraph that
    occurs again comes again. Raises InputError for a file that cannot be read as what it should be.
    """
    names = _mapping("corpus.columns", columns, PASSAGE_COLUMNS)
    match file_format(file, form, "corpus.format"):
        case "squad":
            rows = (
                {"id": squad_id(paragraph["context"]), "title": title, "text": paragraph["context"]}
                for title, paragraph in squad_paragraphs(file)
            )
            tables = tables_of_rows(rows, file)
        case "jsonl":
            tables = tables_of_rows(json_lines(file), file)
        case _:
            tables = parquet_tables(file)
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
    setting = "questions.columns"
    names = _mapping(setting, columns, QUESTION_COLUMNS)
    number = 0
    match file_format(file, form, "questions.format"):
        case "squad":
            for _, paragraph in squad_paragraphs(file):
                for row in squad_questions(file, paragraph):
                    number += 1
                    yield number, _question(row, file, number)
        case "jsonl":
            for row in json_lines(file):
                number += 1
                found = _found(names, row, QUESTION_NEEDS, f"{base_name(file)} row {number}", setting)
                yield number, _question({ours: row[found[ours]] for ours in found}, file, number)
        case _:
            for table in parquet_tables(file, tuple(names.values())):
                found = _found(names, table.column_names, QUESTION_NEEDS, base_name(file), setting)
                values = [table.column(theirs).to_pylist() for theirs in found.values()]
                for row in zip(*values, strict=True):
                    number += 1
                    yield number, _question(dict(zip(found, row, strict=True)), file, number)


def _mapping(setting: str, columns: Mapping[str, str] | None, ours: Sequence[str]) -> dict[str, str]:
    """Each of our columns to theirs."""
    if unknown := set(columns or {}) - set(ours):
        raise InputError(
            f"{setting}: no column {sorted(unknown)[0]!r} is known here; there are {', '.join(ours)}"
        )
    return {name: (columns or {}).get(name, name) for name in ours}


def _found(
    names: Mapping[str, str], present: Collection[str], needed: Collection[str], where: str, setting: str
) -> dict[str, str]:
    """Those of `names` that are present. Raises InputError when one that is needed is not."""
    for name in needed:
        if names[name] not in present:
            raise InputError(
                f"{where}: no column {names[name]!r} among {', '.join(present) or 'none'}; "
                f"name the right one, as in {setting}={{{name}: yours}}"
            )
    return {ours: theirs for ours, theirs in names.items() if theirs in present}


def _as_passages(table: pa.Table, names: Mapping[str, str], file: str, first: int) -> pa.Table:
    """Our three columns as strings, then the rest."""
    found = _found(names, table.column_names, ("id", "text"), base_name(file), "corpus.columns")
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
    answers = _strings(row["answers"], "answers", where)
    if not any(answer.strip() for answer in answers):
        raise InputError(
            f"{where}: no answer; a question needs one to be trained and evaluated on: "
            "leave the row out (also SQuAD 2.0's unanswerable questions)"
        )
    positives = tuple(dict.fromkeys(_strings(row["positive_ids"], "positive_ids", where)))
    if not positives:
        raise InputError(f"{where}: no positive passage; leave the row out or name one in positive_ids")
    starts = row.get("answer_starts")
    if starts is not None:
        starts = tuple([starts] if isinstance(starts, int) else starts)
        if not all(isinstance(start, int) for start in starts):
            raise InputError(f"{where}: answer_starts are whole numbers, not {list(starts)!r}")
        if len(starts) != len(answers):
            raise InputError(
                f"{where}: {len(starts)} answer_starts for {len(answers)} answers; "
                "give one for each answer, or null"
            )
    return Question(qid, str(row["question"]).strip(), answers, starts, positives)


def _strings(value: Any, name: str, where: str) -> tuple[str, ...]:
    """A list of strings, or a single one; null is none of them."""
    values = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(item, str | int | None) for item in values):
        raise InputError(f"{where}: {name} are texts, not {value!r:.80}")
    return tuple(str(item) for item in values if item is not None)
