"""Readers of the user's passages, as Arrow tables, and questions, which check every row and name its location."""

import contextlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from multiview.config import Questions
from multiview.data.answers import check_patterns
from multiview.data.questions import Question
from multiview.data.reading import sources
from multiview.data.reading.columns import (
    PASSAGE_COLUMNS,
    QUESTION_COLUMNS,
    add_nested,
    checked_columns,
    match_columns,
    require,
)
from multiview.data.reading.files import base_name, shown_names
from multiview.data.reading.formats import FORMATS, detect
from multiview.data.reading.parquet import refuse_rounded
from multiview.data.reading.qrels import FORMS, Use, judgements, read_triples
from multiview.data.reading.question_rows import checked_question
from multiview.data.reading.tables import OBJECT_AT, Row, with_nested_columns
from multiview.data.reading.values import ODD, id_text, inexact, is_blank, look_alike, number_texts
from multiview.errors import InputError, Report, counted, nearest

DERIVED_COLUMNS = ("sentence_ends", "content_hash")
"""Columns that `split` adds."""
OURS = "columns with the names of ours, not read"
NO_TITLES = "passages without title beside a column that is called so"
IRRELEVANT_ALONE = "judged questions without a passage graded above 0, left out: pytrec_eval counts them as 0"
UNUSED_NEGATIVES = "given negatives of training questions, not used with questions.hard_negatives=bm25"
UNKNOWN_JUDGED = "judged questions that are in no file of questions"
"""Kinds of remarks."""


def passage_tables(
    file: str, form: str = "auto", columns: Mapping[str, str] | None = None, report: Report | None = None
) -> Iterator[pa.Table]:
    """Yields the passages of one file in order, in tables of up to 1000 rows.

    Their columns are `id, title, text` (strings, empty for null), then the file's further columns, except those with
    one of our names. `columns` maps our column names to the file's. Raises InputError for a file that cannot be read
    as passages.
    """
    columns, report = checked_columns("corpus.columns", columns, PASSAGE_COLUMNS), report or Report()
    found = FORMATS[detect(file, form, "corpus.format", columns.values())]
    if found.passages is None:
        raise InputError(f"{base_name(file)}: no passages in it, but {found.about}; see corpus.source")
    required = [name for name in PASSAGE_COLUMNS if name != "title" or name in columns]
    remarked: set[str] = set()
    for table in with_nested_columns(found.passages(file), columns.values(), file):
        present = table.column_names
        matched = match_columns(columns, PASSAGE_COLUMNS, present)
        for name in (*DERIVED_COLUMNS, *(name for name, column in matched.items() if column != name)):
            if name in present and name not in remarked:
                report.remark(OURS, f"{base_name(file)}: column {name!r}; rename it to keep it")
                remarked.add(name)
        other = next((name for name in present if "title" in name.lower()), None)
        if other and "title" not in {*remarked, *matched}:
            line = f"{base_name(file)}: if column {other!r} has them, set corpus.columns={{title: {other!r}}}"
            report.remark(NO_TITLES, line)
            remarked.add("title")
        require(required, matched, columns, present, base_name(file), "corpus.columns")
        required = ["id"]  # in later rows of JSON, what is null may be left out
        columns = {**{name: matched[name] for name in ("id", "text") if name in matched}, **columns}
        yield _as_passages(table, matched, file)


def _as_passages(table: pa.Table, matched: Mapping[str, str], file: str) -> pa.Table:
    """Returns the table with our three columns as strings, then the other columns."""
    ours: dict[str, pa.Array | pa.ChunkedArray] = {}
    for name in PASSAGE_COLUMNS:
        if (column := matched.get(name)) is None:
            ours[name] = pa.repeat("", table.num_rows)
            continue
        if found := (table.schema.field(column).metadata or {}).get(OBJECT_AT):
            line = f"column {column!r} holds an object, not text; see corpus.columns"
            raise InputError(f"{found.decode()}: {line}")
        texts = _texts(table.column(column), name, f"{base_name(file)}: column {column!r}")
        shown = ["" if text is None or is_blank(text) else text for text in texts.to_pylist()]
        ours[name] = pa.array(shown, pa.string())
    taken = {*matched.values(), *PASSAGE_COLUMNS, *DERIVED_COLUMNS}
    rest = {name: table.column(name) for name in table.column_names if name not in taken}
    return pa.table(ours | rest)


def _texts(column: pa.ChunkedArray, name: str, location: str) -> pa.ChunkedArray:
    """Returns our column `name` as text, NaN as null; ids and titles may be numbers. Raises InputError for others."""
    kind, fault = column.type, f"is {column.type}"
    if pa.types.is_floating(kind):  # pandas writes NaN for what is missing
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, kind), column)
        if column.null_count == len(column):
            return pa.chunked_array([pa.nulls(len(column), pa.string())])
    if pa.types.is_floating(kind) and name != "text":
        largest = pc.max(pc.abs(column.cast(pa.float64()))).as_py()
        bits = {16: 11, 32: 24}.get(kind.bit_width, 53)
        if name == "id" and 1 << bits <= largest < math.inf:
            raise inexact(largest, location, bits)
        if largest < math.inf:
            return number_texts(column)
        fault = "holds infinite numbers"  # also 1e400, and anything else too large for 64 bits
    elif not pa.types.is_boolean(kind) and (name != "text" or not pa.types.is_primitive(kind)):
        with contextlib.suppress(pa.ArrowException):
            return number_texts(column) if pa.types.is_decimal(kind) else column.cast(pa.string())
    way_out = "join its texts, or give each a row" if pa.types.is_list(kind) else "see corpus.columns"
    raise InputError(f"{location} {fault}, not text; {way_out}")


def read_all_questions(
    section: Questions, report: Report, found: dict[Use, dict[str, bool]] | None = None
) -> tuple[list[Question], list[Question]]:
    """Returns the training and the dev questions; ids are unique within each.

    Reports mappings to columns that no file has. `found` receives, per use, the columns of its files and whether they
    are read.
    """
    found = {} if found is None else found
    train, dev = (_questions_for(section, use, report, found.setdefault(use, {})) for use in ("train", "dev"))
    columns = sorted(set().union(*found.values()))
    for name, column in section.columns.items() if columns else ():  # else no file names its columns
        if column not in columns:
            line = f"questions.columns={{{name}: {column}}}: no file of questions has this column"
            report.problem("columns that no file has", f"{line}{nearest(column, columns)}")
    return train, dev


def _questions_for(section: Questions, use: Use, report: Report, found: dict[str, bool]) -> list[Question]:
    """Returns a use's questions; given negatives only for training, and if `questions.hard_negatives` wants them."""
    locations: dict[str, str] = {}
    questions: list[Question] = []
    groups = sources.question_groups(section.source if use == "train" else section.dev_source, use)
    for location, question in chain.from_iterable(
        questions_of(group, section.format, section.columns, report, found) for group in groups
    ):
        if question.qid in locations:
            report.problem(
                "questions whose id was used before",
                f"{location}: question id {question.qid!r} was used before, in {locations[question.qid]}; ids must be "
                "unique, and where a file has none they begin with its name: rename it",
            )
            continue
        if section.answer_matching == "regex":
            try:
                check_patterns(question.answers)
            except InputError as error:
                report.problem("answers that are no patterns", f"{location}: {error}")
                continue
        locations[question.qid] = location
        if question.negative_ids and (use != "train" or section.hard_negatives == "bm25"):
            if use == "train":
                report.remark(UNUSED_NEGATIVES, location)
            question = replace(question, negative_ids=())
        questions.append(question)
    if groups and not questions:
        files = ", ".join(chain.from_iterable(groups))
        report.problem("sources without questions", f"{files}: no questions in it")
    return questions


def questions_of(
    files: Sequence[str],
    form: str = "auto",
    columns: Mapping[str, str] | None = None,
    report: Report | None = None,
    found: dict[str, bool] | None = None,
) -> Iterator[tuple[str, Question]]:
    """Yields the questions of some files in order, each with its location, as in `train.jsonl row 7`.

    Judgements among `files` give positives, with their grades, to questions without positives. Triples do so where no
    judgement does, and also give negatives. With either, questions without judgements and without answers are skipped.
    `found` receives the columns of files that name them, and whether they are read. Raises InputError for a file that
    cannot be read, or a line that is no judgement or triple. Reports rows that are no valid question, and judgements
    that name no relevant passage or none of the questions, or contradict a question's own positives.
    """
    columns, report = checked_columns("questions.columns", columns, QUESTION_COLUMNS), report or Report()
    formats = {file: detect(file, form, "questions.format", columns.values()) for file in files}
    companions = [file for file in files if FORMATS[formats[file]].is_companion]
    positives, negatives = read_triples([file for file in files if formats[file] == "triples"], report)
    graded = judgements([file for file in files if formats[file] == "qrels"], report)
    judged = graded | {qid: found for qid, found in positives.items() if not graded.get(qid)}
    unknown, known = dict.fromkeys(judged), set[str]()
    judges = ", ".join(map(base_name, companions))
    if judged and not any(judged.values()):
        report.problem(
            "judgements without a relevant passage",
            f"{judges}: no passage of {counted(len(judged), 'judged question')} has a grade above 0: are its columns {FORMS}?",
        )
        return
    shown = shown_names(files)
    for file in files:
        if file in companions:
            continue
        for number, row in enumerate(_question_rows(file, formats[file], columns, found), 1):
            location = f"{shown[file]} row {number}"
            try:
                question = checked_question(row, judged, location, formats[file])
            except InputError as error:
                report.problem("questions that cannot be used", str(error))
                continue
            for value in () if question is None else (question.qid, question.question, *question.answers):
                for kind, pattern in ODD.items():
                    if re.search(pattern, value):
                        report.remark(kind, f"{location}: {value!r:.80}")
            if judged:
                known.add(qid := id_text(row["qid"], shown[file]))
                unknown.pop(qid, None)
                if question is None and qid in judged:
                    report.remark(IRRELEVANT_ALONE, f"question {qid}")
            if question is None:
                continue
            qid, grades = question.qid, question.grades
            if grades not in (graded.get(qid, grades), positives.get(qid)):
                line = f"other positive_ids or relevance than in {judges}; leave out one of the two"
                report.problem("questions that cannot be used", f"{location} (question {qid}): {line}")
                continue
            if more := negatives.get(qid):
                more = dict.fromkeys((*question.negative_ids, *more))
                question = replace(question, negative_ids=tuple(more))
            yield location, question
    first = look_alike(next(iter(unknown)), known, "the files of questions have") if unknown else ""
    if unknown and len(unknown) == len(judged):
        report.problem(
            "judgements of other questions",
            f"{judges}: none of {counted(len(judged), 'judged question')} (first: {first}) is in the files of questions; "
            "name the files with the judged questions",
        )
        return
    for _ in unknown:
        report.remark(UNKNOWN_JUDGED, f"{judges}: no file of questions has {first}")


def _question_rows(
    file: str, form: str, columns: Mapping[str, str], found: dict[str, bool] | None
) -> Iterator[Row]:
    """Yields a file's rows under our column names. A column of the first row is null in rows that lack it."""
    read, names_columns = FORMATS[form].questions, FORMATS[form].names_columns
    if read is None:
        line = f"no questions in it, but {FORMATS[form].about}; see questions.source"
        raise InputError(f"{base_name(file)}: {line}")
    mapped = columns if names_columns else {}
    present: tuple[str, ...] | None = None
    first: dict[str, str] = {}
    taken: list[tuple[str, str]] = []
    for number, row in enumerate(read(file), 1):
        add_nested(row, mapped.values())
        if tuple(row) != present:  # rows of most files have the same columns
            present = tuple(row)
            matched = match_columns(mapped, QUESTION_COLUMNS, row)
            matched |= {name: column for name, column in first.items() if column in row}
            location = f"{base_name(file)} row {number}" if form == "jsonl" else base_name(file)
            require(("qid", "question"), matched, mapped, row, location, "questions.columns")
            if form == "parquet" and not first:
                refuse_rounded(file, [matched[name] for name in matched if name.endswith(("qid", "_ids"))])
            first = first or matched
            taken = list({**first, **matched}.items())
            if found is not None and names_columns:
                are_read = {*matched.values(), *(column.partition(".")[0] for column in matched.values())}
                found |= {column: column in are_read or found.get(column, False) for column in row}
        yield {name: row.get(column) for name, column in taken}
