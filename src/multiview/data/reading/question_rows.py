"""Turns a row of a user's file into a question, and checks every value."""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from math import inf
from typing import Any, cast

from multiview.data.questions import LARGEST_GRADE, Question, relevance
from multiview.data.reading.delimited import parse_list
from multiview.data.reading.tables import Row
from multiview.data.reading.values import HALF, check_ids, has_half, id_text, is_blank, is_nan, number_text
from multiview.errors import InputError, counted, naming

NO_TEXT = (bool, bytes, list, dict)
"""Types of values that cannot be a question's id or text."""
DIGITS = re.compile(r"([0-9]{1,15})(\.0+)?")
LARGEST_OFFSET = (1 << 31) - 1
"""The largest offset: `questions.parquet` has 32 bits for each."""


def checked_question(
    row: Row, judged: Mapping[str, dict[str, int]], location: str, form: str
) -> Question | None:
    """Returns the checked question of a row with our column names; None if only other questions are judged.

    `judged` is what `judgements` returns. Raises InputError, which begins with `location`, for an invalid value.
    """
    if float in map(type, row.values()):  # pandas and json.dumps write NaN for what is missing
        row = {name: None if is_nan(value) else value for name, value in row.items()}
    with naming(location):
        if row["qid"] is None or is_blank(str(row["qid"])) or is_blank(str(row["question"] or "")):
            raise InputError("no qid or no question; every row needs both")
        for name in ("qid", "question"):
            if isinstance(row[name], NO_TEXT) or row[name] in (inf, -inf):
                raise InputError(f"{name} is a text, not {row[name]!r:.80}")
        qid = id_text(row["qid"], "qid")
        check_ids((qid,), "qid")
    with naming(f"{location} (question {qid})"):
        return _question(qid, row, judged, form)


def _question(qid: str, row: Row, judged: Mapping[str, dict[str, int]], form: str) -> Question | None:
    answers = _strings(row, "answers")
    if "answers" in row and all(map(is_blank, answers)):
        line = "no answer; a question of a file with answers needs one: leave out those without (as SQuAD 2.0's unanswerable)"
        raise InputError(
            f"{line}, and give questions that have only gold passages in a file without this column"
        )
    positives = _strings(row, "positive_ids")
    if positives or ("positive_ids" in row and not judged):
        grades = _grades(row, positives)
        if not grades and form not in ("dpr", "tevatron"):  # their training files have such questions
            raise InputError("no positive passage; leave the row out or name one in positive_ids")
    elif judged.get(qid) or answers:
        grades = judged.get(qid, {})
    elif judged:
        return None
    else:
        raise InputError(
            "neither an answer nor a gold passage; name their columns, as in "
            "questions.columns={positive_ids: yours}, or the judgements (qrels) beside the questions"
        )
    starts = _numbers(row, "answer_starts", answers, "answer")
    if too_large := next((start for start in starts or () if abs(start) > LARGEST_OFFSET), None):
        raise InputError(f"answer_starts are offsets in a text, up to {LARGEST_OFFSET:,}, not {too_large:,}")
    text, negatives = str(row["question"]).strip(), dict.fromkeys(_strings(row, "negative_ids"))
    return Question(qid, text, answers, starts, tuple(grades), relevance(grades), tuple(negatives))


def _grades(row: Row, positives: Sequence[str]) -> dict[str, int]:
    """Returns each positive once, with its grade: 1 where there are no grades."""
    numbers = _numbers(row, "relevance", positives, "positive id")
    grades: dict[str, int] = {}
    for id_, grade in zip(positives, numbers or [1] * len(positives), strict=True):
        if not 0 < grade <= LARGEST_GRADE:
            raise InputError(
                f"relevance are grades from 1 to {LARGEST_GRADE:,}, not {grade:,}; leave irrelevant passages out, and "
                "scale larger grades down"
            )
        if grades.setdefault(id_, grade) != grade:
            raise InputError(f"passage {id_} has relevance {grades[id_]} and {grade}; give one")
    return grades


def _numbers(row: Row, name: str, of: Sequence[str], noun: str) -> tuple[int, ...] | None:
    """Returns the whole numbers of a column, one for each of `of`; None if it has none."""
    if (value := parse_list(row.get(name), name, numbers=True)) is None:
        return None
    values = list(value) if isinstance(value, list | tuple) else [value]
    if set(map(type, values)) != {int}:
        values = list(map(_whole, values))
        if set(map(type, values)) - {int}:
            raise InputError(f"{name} are whole numbers, not {values!r:.80}")
    if len(values) != len(of):
        raise InputError(f"{len(values)} {name} for {counted(len(of), noun)}; give one for each, or null")
    return tuple(cast("list[int]", values))


def _whole(value: Any) -> Any:
    """Returns an int for digits, as in CSV, or 30.0, as tools without nullable integers write it; else the value."""
    if isinstance(value, str):
        return int(found[1]) if (found := DIGITS.fullmatch(value)) else value
    return int(value) if isinstance(value, float | Decimal) and value % 1 == 0 else value


def _strings(row: Row, name: str) -> tuple[str, ...]:
    """Returns the strings of a list or of a single value, ids checked; null gives no string."""
    value = parse_list(row.get(name), name)
    values = [] if value is None else value if isinstance(value, list) else [value]
    if set(map(type, values)) <= {str}:
        strings = tuple(cast("list[str]", values))
        if has_half("".join(strings)):  # of a list in a cell: readers of JSON refuse it themselves
            raise InputError(f"{name} hold {HALF}")
    else:
        values = [None if is_nan(item) else item for item in values]
        are_texts = set(map(type, values)) <= {str, int, float, Decimal, type(None)}
        if not are_texts or inf in values or -inf in values:
            raise InputError(f"{name} are texts, not {value!r:.80}")
        present = [item for item in values if item is not None]
        if present and len(present) < len(values) and name != "answers":
            raise InputError(f"{name} hold null beside {present[0]!r:.80}; leave it out, or mend the id")
        strings = tuple(number_text(item) if name == "answers" else id_text(item, name) for item in present)
    if name != "answers":
        if "" in strings:
            raise InputError(f"{name} hold an empty id; leave it out, or mend the id")
        check_ids(strings, name)
    return strings
