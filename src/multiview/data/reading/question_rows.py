"""The question that a row of a user's file holds, every value of it checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import TypeGuard, cast

from multiview.data.questions import LARGEST_GRADE, Question, relevance
from multiview.data.reading.tables import Row, parse_list
from multiview.data.reading.values import check_ids, has_half, id_text, is_blank, is_nan
from multiview.errors import InputError, counted

NO_TEXT = (bool, bytes, list, dict)
"""Types of values that are no text of a question."""
LARGEST_OFFSET = (1 << 31) - 1
"""The largest offset: `questions.parquet` has 32 bits for each."""


def checked_question(
    row: Row, judged: Mapping[str, dict[str, int]], location: str, form: str
) -> Question | None:
    """Returns the checked question of a row with our column names; None when only other questions are judged.

    `judged` holds the grades of gold passages from files of judgements, by question; `location` begins the line of an
    error. Raises InputError for a value that is no question's.
    """
    if float in map(type, row.values()):  # pandas and json.dumps write NaN for what is missing
        row = {name: None if is_nan(value) else value for name, value in row.items()}
    if row["qid"] is None or is_blank(str(row["qid"])) or is_blank(str(row["question"] or "")):
        raise InputError(f"{location}: no qid or no question; every row needs both")
    for name in ("qid", "question"):
        if not isinstance(row[name], str) and (isinstance(row[name], NO_TEXT) or row[name] in (inf, -inf)):
            raise InputError(f"{location}: {name} is a text, not {row[name]!r:.80}")
    qid = id_text(row["qid"], f"{location}: qid")
    check_ids((qid,), f"{location}: qid")
    location = f"{location} (question {qid})"
    answers: tuple[str, ...] = ()
    if "answers" in row:
        answers = _strings(_listed(row, "answers", location), "answers", location)
        if all(map(is_blank, answers)):
            raise InputError(
                f"{location}: no answer; a question of a file with answers needs one: "
                "leave the row out (also SQuAD 2.0's unanswerable questions)"
            )
    if "positive_ids" in row:
        positives = _strings(_listed(row, "positive_ids", location), "positive_ids", location)
        check_ids(positives, f"{location}: positive_ids")
        grades = _grades(_listed(row, "relevance", location), positives, location)
        if not positives and form not in ("dpr", "tevatron"):  # their training files have such questions
            raise InputError(
                f"{location}: no positive passage; leave the row out or name one in positive_ids"
            )
    elif judged.get(qid) or answers:
        grades = judged.get(qid, {})
    elif judged:
        return None
    else:
        raise InputError(
            f"{location}: neither an answer nor a gold passage; name their columns, as in "
            "questions.columns={positive_ids: yours}, or the judgements (qrels) beside the questions"
        )
    starts = _starts(_listed(row, "answer_starts", location), answers, location)
    text = str(row["question"]).strip()
    negatives = dict.fromkeys(_strings(_listed(row, "negative_ids", location), "negative_ids", location))
    check_ids(negatives, f"{location}: negative_ids")
    return Question(qid, text, answers, starts, tuple(grades), relevance(grades), tuple(negatives))


def _listed(row: Row, name: str, location: str) -> object:
    return parse_list(row.get(name), f"{location}: {name}")


def _grades(value: object, positives: Sequence[str], location: str) -> dict[str, int]:
    """Returns each positive once, with its grade: 1 where there are no grades. Grades may be strings of digits."""
    if value is None:
        return dict.fromkeys(positives, 1)
    values = [int(grade) if _is_digits(grade) else grade for grade in _as_list(value)]
    numbers = [grade for grade in values if type(grade) is int and grade > 0]
    if len(numbers) != len(values):
        raise InputError(
            f"{location}: relevance are whole numbers above 0, not {values!r:.80}; leave out irrelevant passages"
        )
    if max(numbers, default=0) > LARGEST_GRADE:
        raise InputError(
            f"{location}: relevance are grades up to {LARGEST_GRADE:,}, not {max(numbers):,}; scale them down"
        )
    if len(values) != len(positives):
        raise InputError(
            f"{location}: {len(values)} relevance for {len(positives)} positive_ids; give one for each, or null"
        )
    grades: dict[str, int] = {}
    for id_, grade in zip(positives, numbers, strict=True):
        if grades.setdefault(id_, grade) != grade:
            raise InputError(f"{location}: passage {id_} has relevance {grades[id_]} and {grade}; give one")
    return grades


def _starts(value: object, answers: Sequence[str], location: str) -> tuple[int, ...] | None:
    """Returns one offset per answer; offsets may be strings of digits, as in CSV."""
    if value is None:
        return None
    values = [int(value)] if _is_digits(value) else _as_list(value)
    if set(map(type, values)) != {int}:
        # Tools that have no integer column with nulls write 30.0.
        values = [int(v) if isinstance(v, float) and v.is_integer() else v for v in values]
        if not all(isinstance(v, int) for v in values):
            raise InputError(f"{location}: answer_starts are whole numbers, not {values!r}")
    starts = tuple(cast("list[int]", values))
    if (too_large := max(starts, key=abs, default=0)) and abs(too_large) > LARGEST_OFFSET:
        raise InputError(
            f"{location}: answer_starts are offsets in a text, up to {LARGEST_OFFSET:,}, not {too_large:,}"
        )
    if len(values) != len(answers):
        raise InputError(
            f"{location}: {len(values)} answer_starts for {counted(len(answers), 'answer')}; "
            "give one for each answer, or null"
        )
    return starts


def _is_digits(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and value.isdigit() and value.isascii() and len(value) <= 15


def _as_list(value: object) -> list[object]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _strings(value: object, name: str, location: str) -> tuple[str, ...]:
    """Returns the strings of a list or of a single value; null gives no string."""
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    values = value if isinstance(value, list) else [value]
    if set(map(type, values)) == {str}:
        texts = cast("list[str]", values)
        if has_half("".join(texts)):  # of a list in a cell: readers of JSON refuse it themselves
            raise InputError(
                f"{location}: {name} hold half a character (a lone surrogate); write the file again as UTF-8"
            )
        return tuple(texts)
    values = [None if is_nan(item) else item for item in values]
    if not all(
        isinstance(item, str | int | float | None) and not isinstance(item, bool) for item in values
    ) or (inf in values or -inf in values):
        raise InputError(f"{location}: {name} are texts, not {value!r:.80}")
    present = [item for item in values if item is not None]
    if present and len(present) < len(values) and name != "answers":
        raise InputError(
            f"{location}: {name} hold null beside {present[0]!r:.80}; leave it out, or mend the id"
        )
    return tuple(str(item) if name == "answers" else id_text(item, f"{location}: {name}") for item in present)
