"""People's passages and questions, checked row by row, with the place that each came from.

Passages come as Arrow tables with the columns `id, title, text` and the user's own, questions as
`Question`s.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from multiview.data.questions import Question, relevance
from multiview.data.reading.files import base_name, shown_names
from multiview.data.reading.formats import FORMATS, QRELS, detect
from multiview.data.reading.judged import judgements
from multiview.data.reading.problems import Tell, pass_over, refuse
from multiview.data.reading.tables import listed
from multiview.errors import InputError

PASSAGE_COLUMNS = {"id": ("_id",), "title": (), "text": ()}
"""Our names, and what other names BEIR's files have for them."""

QUESTION_COLUMNS = {
    "qid": ("_id",),
    "question": ("text",),
    "answers": (),
    "answer_starts": (),
    "positive_ids": (),
    "relevance": (),
}
DERIVED_COLUMNS = ("sentence_ends", "content_hash")

UNKNOWN_JUDGED = "judged questions that are in no file of questions"
"""A kind of remark."""


def passage_tables(
    file: str, form: str = "auto", columns: Mapping[str, str] | None = None
) -> Iterator[pa.Table]:
    """The passages of one file in order, up to 1000 rows at a time.

    Tables have `id, title, text` (strings; null reads as an empty one), then the file's further columns, but for those that have one of our names. `columns` names the file's
    columns: ours to theirs. Raises InputError for a file that cannot be read as what it should be.
    """
    columns = checked_columns("corpus.columns", columns, PASSAGE_COLUMNS)
    name = detect(file, form, "corpus.format", columns.values())
    read = FORMATS[name].passages if name != QRELS else None
    if read is None:
        raise InputError(f"{base_name(file)}: no passages in it, but {_what(name)}; see corpus.source")
    for table in read(file):
        yield _as_passages(table, columns, file)


def questions_of(
    files: Sequence[str],
    form: str = "auto",
    columns: Mapping[str, str] | None = None,
    tell: Tell = refuse,
    remark: Tell = pass_over,
) -> Iterator[tuple[str, Question]]:
    """The questions of some files in order, each with its place, as in `train.jsonl row 7`.

    `positive_ids` and `answers` may be lists or single strings; `answers`, `answer_starts`,
    `positive_ids` and `relevance` may be missing altogether, and are empty (None for `answer_starts` and
    `relevance`) then. Files of judgements among the files give the positives, with their grades, of
    questions without; those that are not judged and have no answers are passed over. Raises InputError for
    a file that cannot be read; `tell` gets what is wrong with a row: no answer where its file has them,
    offsets that do not pair with its answers; and judgements of none of the questions. `remark` gets each
    judged question that is not among them.
    """
    columns = checked_columns("questions.columns", columns, QUESTION_COLUMNS)
    formats = {file: detect(file, form, "questions.format", columns.values()) for file in files}
    qrels = [file for file in files if formats[file] == QRELS]
    judged = judgements(qrels)
    unknown = dict.fromkeys(judged)
    shown = shown_names(files)
    for file in files:
        if formats[file] == QRELS:
            continue
        for number, row in enumerate(_question_rows(file, formats[file], columns), 1):
            try:
                question = _question(row, judged, f"{shown[file]} row {number}", formats[file])
            except InputError as error:
                tell("questions that cannot be used", str(error))
                continue
            unknown.pop(str(row["qid"]), None)
            if question is not None:
                yield f"{shown[file]} row {number}", question
    _say_unknown(list(unknown), len(judged), qrels, tell, remark)


def _say_unknown(unknown: Sequence[str], judged: int, qrels: Sequence[str], tell: Tell, remark: Tell) -> None:
    named = ", ".join(map(base_name, qrels))
    if unknown and len(unknown) == judged:
        tell(
            "judgements of other questions",
            f"{named}: none of the {judged} judged questions (first: {unknown[0]}) is in the files of questions; "
            "name the questions that they are of",
        )
        return
    for qid in unknown:
        remark(UNKNOWN_JUDGED, f"{named}: question {qid} is judged and in no file of questions")


def checked_columns(
    setting: str, columns: Mapping[str, str] | None, ours: Collection[str]
) -> Mapping[str, str]:
    """The mapping itself. Raises InputError for a name that is none of ours."""
    if unknown := set(columns or {}) - set(ours):
        raise InputError(
            f"{setting}: no column {sorted(unknown)[0]!r} is known here; there are {', '.join(ours)}"
        )
    return columns or {}


def found_columns(
    columns: Mapping[str, str], ours: Mapping[str, Sequence[str]], present: Collection[str]
) -> dict[str, str]:
    """Ours to theirs, of those columns that are present: under the name given, our own or BEIR's."""
    found: dict[str, str] = {}
    for name, others in ours.items():
        candidates = (columns[name],) if name in columns else (name, *others)
        if theirs := next((theirs for theirs in candidates if theirs in present), None):
            found[name] = theirs
    return found


def _what(name: str) -> str:
    return "judgements" if name == QRELS else FORMATS[name].about


def _needed(
    needed: Iterable[str],
    found: Mapping[str, str],
    columns: Mapping[str, str],
    present: Collection[str],
    place: str,
    setting: str,
) -> None:
    for name in needed:
        if name not in found:
            raise InputError(
                f"{place}: no column {columns.get(name, name)!r} among {', '.join(present) or 'none'}; "
                f"name the right one, as in {setting}={{{name}: yours}}"
            )


# --- passages ----------------------------------------------------------------------------------


def _as_strings(column: pa.ChunkedArray, numbers: bool) -> pa.ChunkedArray | None:
    """None for lists and the like, and for numbers unless they may stand for themselves, as in ids."""
    if pa.types.is_primitive(column.type) and not numbers:
        return None
    try:
        return column.cast(pa.string())
    except pa.ArrowException:
        return None


def _as_passages(table: pa.Table, columns: Mapping[str, str], file: str) -> pa.Table:
    """Our three columns as strings, then the rest."""
    present = table.column_names
    found = found_columns(columns, PASSAGE_COLUMNS, present)
    _needed(("id", "text"), found, columns, present, base_name(file), "corpus.columns")
    if "title" in columns:
        _needed(("title",), found, columns, present, base_name(file), "corpus.columns")
    ours: dict[str, Any] = {}
    for name in PASSAGE_COLUMNS:
        if name not in found:
            ours[name] = pa.array([""] * table.num_rows, pa.string())
            continue
        column = table.column(found[name])
        strings = _as_strings(column, numbers=name != "text")
        if strings is None:
            raise InputError(
                f"{base_name(file)}: column {found[name]!r} is {column.type}, not text; see corpus.columns"
            )
        ours[name] = strings.fill_null("")
    if len(set(present)) < len(present):
        raise InputError(f"{base_name(file)}: two columns of one name among {', '.join(present)}")
    taken = {*found.values(), *PASSAGE_COLUMNS, *DERIVED_COLUMNS}
    rest = {name: table.column(name) for name in present if name not in taken}
    return pa.table(ours | rest)


# --- questions ---------------------------------------------------------------------------------


def _question_rows(file: str, name: str, columns: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """A file's rows under our names. A column that its first row has is null where another lacks it."""
    read = FORMATS[name].questions
    if read is None:
        raise InputError(f"{base_name(file)}: no questions in it, but {_what(name)}; see questions.source")
    mapped = columns if FORMATS[name].named else {}
    first: dict[str, str] = {}
    for number, row in enumerate(read(file), 1):
        found = found_columns(mapped, QUESTION_COLUMNS, row)
        place = f"{base_name(file)} row {number}" if name == "jsonl" else base_name(file)
        _needed(("qid", "question"), found, mapped, row, place, "questions.columns")
        first = first or found
        yield {ours: row.get(theirs) for ours, theirs in {**first, **found}.items()}


def _question(row: Mapping[str, Any], judged: Mapping[str, Any], place: str, form: str) -> Question | None:
    """A checked question of a row with our column names; None when only others are judged."""
    if row["qid"] is None or not str(row["question"] or "").strip():
        raise InputError(f"{place}: no qid or no question; every row needs both")
    qid = str(row["qid"])
    place = f"{place} (question {qid})"
    answers: tuple[str, ...] = ()
    if "answers" in row:
        answers = _strings(listed(row["answers"]), "answers", place)
        if not any(answer.strip() for answer in answers):
            raise InputError(
                f"{place}: no answer; a question of a file with answers needs one: "
                "leave the row out (also SQuAD 2.0's unanswerable questions)"
            )
    if "positive_ids" in row:
        positives = _strings(listed(row["positive_ids"]), "positive_ids", place)
        grades = _grades(listed(row.get("relevance")), positives, place)
        if not positives and form != "dpr":  # whose training files have such questions
            raise InputError(f"{place}: no positive passage; leave the row out or name one in positive_ids")
    elif judged.get(qid) or answers:
        grades = judged.get(qid, {})
    elif judged:
        return None
    else:
        raise InputError(
            f"{place}: neither an answer nor a gold passage; name their columns, as in "
            "questions.columns={positive_ids: yours}, or the judgements (qrels) beside the questions"
        )
    starts = _starts(listed(row.get("answer_starts")), answers, place)
    text = str(row["question"]).strip()
    return Question(qid, text, answers, starts, tuple(grades), relevance(grades))


def _grades(value: Any, positives: Sequence[str], place: str) -> dict[str, int]:
    """Each positive once, with its grade: 1 where there are no grades. Numbers may stand as text."""
    if value is None:
        return dict.fromkeys(positives, 1)
    values = [int(grade) if _is_digits(grade) else grade for grade in _as_list(value)]
    if not all(isinstance(grade, int) and not isinstance(grade, bool) and grade > 0 for grade in values):
        raise InputError(
            f"{place}: relevance are whole numbers above 0, not {values!r:.80}; leave out passages without any"
        )
    if len(values) != len(positives):
        raise InputError(
            f"{place}: {len(values)} relevance for {len(positives)} positive_ids; give one for each, or null"
        )
    grades: dict[str, int] = {}
    for id_, grade in zip(positives, values, strict=True):
        if grades.setdefault(id_, grade) != grade:
            raise InputError(f"{place}: passage {id_} has relevance {grades[id_]} and {grade}; give one")
    return grades


def _starts(value: Any, answers: Sequence[str], place: str) -> tuple[int, ...] | None:
    """One offset for each answer; numbers may stand as text, as they do in CSV."""
    if value is None:
        return None
    values = [int(value)] if _is_digits(value) else _as_list(value)
    # Tools that know no whole numbers beside nulls write 30.0.
    values = [int(v) if isinstance(v, float) and v.is_integer() else v for v in values]
    starts = tuple(value for value in values if isinstance(value, int))
    if len(starts) != len(values):
        raise InputError(f"{place}: answer_starts are whole numbers, not {list(values)!r}")
    if len(values) != len(answers):
        raise InputError(
            f"{place}: {len(values)} answer_starts for {len(answers)} answers; "
            "give one for each answer, or null"
        )
    return starts


def _is_digits(value: Any) -> bool:
    return isinstance(value, str) and value.isdigit() and value.isascii()


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _strings(value: Any, name: str, place: str) -> tuple[str, ...]:
    """A list of strings, or a single one; null is none of them."""
    values = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(item, str | int | float | None) for item in values):
        raise InputError(f"{place}: {name} are texts, not {value!r:.80}")
    return tuple(str(item) for item in values if item is not None)
