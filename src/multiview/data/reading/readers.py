"""Readers of the user's passages and questions, which check every row and name its location.

Passages are Arrow tables with the columns `id, title, text` and the user's further columns. Questions are
`Question` objects.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from multiview.data.questions import Question
from multiview.data.reading.files import base_name, shown_names
from multiview.data.reading.formats import FORMATS, detect
from multiview.data.reading.qrels import judgements, read_triples
from multiview.data.reading.question_rows import checked_question
from multiview.data.reading.tables import (
    OBJECT_AT,
    PASSAGE_COLUMNS,
    QUESTION_COLUMNS,
    Row,
    checked_columns,
    match_columns,
    require,
    with_nested_columns,
)
from multiview.data.reading.values import (
    EXACT,
    add_nested,
    id_text,
    inexact,
    is_blank,
    look_alike,
    number_texts,
)
from multiview.errors import InputError, ReportProblem, counted, ignore_problem, raise_problem

DERIVED_COLUMNS = ("sentence_ends", "content_hash")
"""Columns that `split` adds."""
OURS = "columns with the names of ours, not read"
NO_TITLES = "passages without title beside a column that is called so"
"""Kinds of remarks."""

UNKNOWN_JUDGED = "judged questions that are in no file of questions"
"""Kind of a remark."""


def passage_tables(
    file: str,
    form: str = "auto",
    columns: Mapping[str, str] | None = None,
    report_remark: ReportProblem = ignore_problem,
) -> Iterator[pa.Table]:
    """Yields the passages of one file in order, up to 1000 rows at a time.

    Tables have `id, title, text` (strings; null becomes an empty string), then the file's further columns, except
    those with one of our names. `columns` maps our column names to the file's.
    Raises InputError for a file that cannot be read as passages.
    """
    columns = checked_columns("corpus.columns", columns, PASSAGE_COLUMNS)
    name = detect(file, form, "corpus.format", columns.values())
    read = FORMATS[name].passages
    if read is None:
        raise InputError(
            f"{base_name(file)}: no passages in it, but {FORMATS[name].about}; see corpus.source"
        )
    ours: set[str] = set()
    for table in with_nested_columns(read(file), columns.values(), file):
        for name in DERIVED_COLUMNS:
            if name in table.column_names and name not in ours:
                report_remark(OURS, f"{base_name(file)}: column {name!r}; rename it to keep it")
                ours.add(name)
        present = table.column_names
        other = next((name for name in present if "title" in name.lower()), None)
        if other and "title" not in {*ours, *match_columns(columns, PASSAGE_COLUMNS, present)}:
            line = f"{base_name(file)}: if column {other!r} has them, set corpus.columns={{title: {other!r}}}"
            report_remark(NO_TITLES, line)
            ours.add("title")
        yield _as_passages(table, columns, file)


def questions_of(
    files: Sequence[str],
    form: str = "auto",
    columns: Mapping[str, str] | None = None,
    report_problem: ReportProblem = raise_problem,
    report_remark: ReportProblem = ignore_problem,
    found: set[str] | None = None,
) -> Iterator[tuple[str, Question]]:
    """Yields the questions of some files in order, each with its location, as in `train.jsonl row 7`.

    `positive_ids`, `negative_ids` and `answers` may be lists or single strings. These columns, `answer_starts` and
    `relevance` may be missing: they are empty then, or None for `answer_starts` and `relevance`. Files of judgements
    among `files` give positives, with their grades, to questions without positives; so do triples where no judgement
    does, and they give negatives. Questions without judgements and without answers are then skipped. `found`
    receives the names of the columns of files that name them.

    Raises InputError for a file that cannot be read. `report_problem` receives each row that cannot be used (no
    answer in a file with answers, offsets that do not match the answers), and judgements that match no question.
    `report_remark` receives each judged question that is not in the files, and each grade that another one replaces.
    """
    columns = checked_columns("questions.columns", columns, QUESTION_COLUMNS)
    formats = {file: detect(file, form, "questions.format", columns.values()) for file in files}
    companions = [file for file in files if FORMATS[formats[file]].is_companion]
    triples = [file for file in files if formats[file] == "triples"]
    positives, negatives = read_triples(triples, report_remark)
    qrels = [file for file in files if formats[file] == "qrels"]
    judged = positives | judgements(qrels, report_remark)
    unknown, known = dict.fromkeys(judged), set[str]()
    shown = shown_names(files)
    for file in files:
        if file in companions:
            continue
        for number, row in enumerate(_question_rows(file, formats[file], columns, found), 1):
            location = f"{shown[file]} row {number}"
            try:
                question = checked_question(row, judged, location, formats[file])
            except InputError as error:
                report_problem("questions that cannot be used", str(error))
                continue
            if judged:
                known.add(qid := id_text(row["qid"], shown[file]))
                unknown.pop(qid, None)
            if question is None:
                continue
            if more := negatives.get(question.qid):
                more = dict.fromkeys((*question.negative_ids, *more))
                question = replace(question, negative_ids=tuple(more))
            yield location, question
    _report_unknown(list(unknown), len(judged), known, companions, report_problem, report_remark)


def _report_unknown(
    unknown: Sequence[str],
    judged: int,
    known: Collection[str],
    qrels: Sequence[str],
    report_problem: ReportProblem,
    report_remark: ReportProblem,
) -> None:
    qrels_names = ", ".join(map(base_name, qrels))
    if unknown and len(unknown) == judged:
        first = look_alike(unknown[0], known, "the files of questions have")
        report_problem(
            "judgements of other questions",
            f"{qrels_names}: none of {counted(judged, 'judged question')} (first: {first}) is in the files of questions; "
            "name the files with the judged questions",
        )
        return
    for qid in unknown:
        report_remark(UNKNOWN_JUDGED, f"{qrels_names}: question {qid} is judged and in no file of questions")


def _texts(column: pa.ChunkedArray, name: str, location: str) -> pa.ChunkedArray:
    """Returns the column of our `name` as texts, with NaN as null. Raises InputError unless it holds texts or, in ids and
    titles, numbers."""
    kind, fault = column.type, f"is {column.type}"
    if pa.types.is_floating(kind):  # pandas writes NaN for what is missing
        missing = pc.call_function("is_nan", [column])
        column = pc.call_function("if_else", [missing, pa.scalar(None, kind), column])
        if column.null_count == len(column):
            return pa.chunked_array([pa.nulls(len(column), pa.string())])
    if pa.types.is_floating(kind) and name != "text":
        largest = pc.call_function("max", [pc.call_function("abs", [column.cast(pa.float64())])]).as_py()
        if name == "id" and EXACT <= largest < math.inf:
            raise inexact(largest, location)
        if largest < math.inf:
            return number_texts(column)
        fault = "holds infinite numbers"  # also 1e400 and all that is larger than a number of 64 bits
    elif not pa.types.is_boolean(kind) and (name != "text" or not pa.types.is_primitive(kind)):
        with contextlib.suppress(pa.ArrowException):
            return column.cast(pa.string())
    raise InputError(f"{location} {fault}, not text; see corpus.columns")


def _as_passages(table: pa.Table, columns: Mapping[str, str], file: str) -> pa.Table:
    """Returns the table with our three columns as strings, then the other columns."""
    present = table.column_names
    matched = match_columns(columns, PASSAGE_COLUMNS, present)
    required = [name for name in PASSAGE_COLUMNS if name != "title" or "title" in columns]
    require(required, matched, columns, present, base_name(file), "corpus.columns")
    ours: dict[str, pa.Array | pa.ChunkedArray] = {}
    for name in PASSAGE_COLUMNS:
        if name not in matched:
            ours[name] = pa.array([""] * table.num_rows, pa.string())
            continue
        if found := (table.schema.field(matched[name]).metadata or {}).get(OBJECT_AT):
            raise InputError(
                f"{found.decode()}: column {matched[name]!r} holds an object, not text; see corpus.columns"
            )
        texts = _texts(table.column(matched[name]), name, f"{base_name(file)}: column {matched[name]!r}")
        shown = ["" if text is None or is_blank(text) else text for text in texts.to_pylist()]
        ours[name] = pa.array(shown, pa.string())
    if len(set(present)) < len(present):
        raise InputError(f"{base_name(file)}: two columns with the same name among {', '.join(present)}")
    taken = {*matched.values(), *PASSAGE_COLUMNS, *DERIVED_COLUMNS}
    rest = {name: table.column(name) for name in present if name not in taken}
    return pa.table(ours | rest)


def _question_rows(file: str, name: str, columns: Mapping[str, str], found: set[str] | None) -> Iterator[Row]:
    """Yields a file's rows under our column names. A column of the first row is null in rows that lack it.

    `found` receives the names of the columns where the file names them.
    """
    read = FORMATS[name].questions
    if read is None:
        raise InputError(
            f"{base_name(file)}: no questions in it, but {FORMATS[name].about}; see questions.source"
        )
    mapped = columns if FORMATS[name].names_columns else {}
    first: dict[str, str] = {}
    present: tuple[str, ...] | None = None
    taken: list[tuple[str, str]] = []
    for number, row in enumerate(read(file), 1):
        add_nested(row, mapped.values())
        if tuple(row) != present:  # rows of most files have the same columns
            present = tuple(row)
            if found is not None and FORMATS[name].names_columns:
                found.update(row)
            matched = match_columns(mapped, QUESTION_COLUMNS, row)
            location = f"{base_name(file)} row {number}" if name == "jsonl" else base_name(file)
            require(("qid", "question"), matched, mapped, row, location, "questions.columns")
            first = first or matched
            taken = list({**first, **matched}.items())
        yield {name: row.get(column) for name, column in taken}


def unread_columns(file: str, form: str, columns: Mapping[str, str]) -> list[str]:
    """Returns the columns of the first row of a file of questions that are not read; none for formats without names."""
    name = detect(file, form, "questions.format", columns.values())
    read = FORMATS[name].questions if FORMATS[name].names_columns else None
    row = add_nested(next(iter(read(file)), {}), columns.values()) if read else {}
    taken = match_columns(columns, QUESTION_COLUMNS, row).values()
    taken = {part for column in taken for part in (column, column.partition(".")[0])}
    return [column for column in row if column not in taken]
