"""What one reading of the whole corpus finds: ids, columns, and where the questions' answers stand."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import pyarrow as pa

from multiview.data.questions import Question
from multiview.data.reading.files import shown_names
from multiview.data.reading.readers import PASSAGE_COLUMNS
from multiview.errors import InputError, counted

Path: TypeAlias = tuple[str, ...]
"""Name of a column, and those of the fields within it."""
UNITS = ("s", "ms", "us", "ns")
"""Arrow's units of times, from the coarsest."""


@dataclass
class FurtherColumns:
    """The further columns of all tables so far; a column is null in tables that lack it."""

    schema: pa.Schema = field(default_factory=lambda: pa.schema([]))
    """The columns, each with the type of all its tables."""
    _too_large: dict[tuple[Path, pa.DataType], str] = field(default_factory=dict)
    """Column, and a type that it may get and that does not hold all its values, to a line that says so."""

    def add(self, table: pa.Table, location: Callable[[], str]) -> None:
        """Adds the columns of a table. Raises InputError where no type holds the values of all tables.

        `location` says where the table's rows are, for the error.
        """
        further = table.drop_columns([name for name in PASSAGE_COLUMNS if name in table.column_names])
        self._unify(further.schema, location)
        for path, values in _leaves(further):
            for kind in _narrower(values.type):
                if (path, kind) not in self._too_large and (reason := _misfit(values, kind)):
                    self._too_large[path, kind] = (
                        f"{location()}: column {'.'.join(path)!r} of {values.type} holds what {kind}, its type for all "
                        f"rows, does not ({reason}); write it as text"
                    )
        if self._too_large:
            for path, values in _leaves(self.schema.empty_table()):
                if line := self._too_large.get((path, values.type)):
                    raise InputError(line)

    def _unify(self, further: pa.Schema, location: Callable[[], str]) -> None:
        try:
            unified = pa.unify_schemas([self.schema, further], promote_options="permissive")
            for column in (*self.schema, *further):
                if column.type != unified.field(column.name).type:
                    pa.nulls(1, column.type).cast(unified.field(column.name).type)
        except pa.ArrowException:
            named = ", ".join(
                f"{f.name!r} ({f.type} after {self.schema.field(f.name).type})"
                for f in further
                if f.name in self.schema.names and f.type != self.schema.field(f.name).type
            )
            raise InputError(
                f"{location()}: the type differs from that of the rows before in column {named}; give a column one type"
            ) from None
        self.schema = unified


def _narrower(kind: pa.DataType) -> list[pa.DataType]:
    """Returns the types that Arrow gives a column of this type and another one, and that do not hold all its values."""
    if pa.types.is_int64(kind):
        return [pa.float64()]
    if pa.types.is_uint64(kind):
        return [pa.float64(), pa.int64()]
    if pa.types.is_timestamp(kind):
        return [pa.timestamp(unit, kind.tz) for unit in UNITS[UNITS.index(kind.unit) + 1 :]]
    if pa.types.is_duration(kind):
        return [pa.duration(unit) for unit in UNITS[UNITS.index(kind.unit) + 1 :]]
    return []


def _misfit(values: pa.Array, kind: pa.DataType) -> str:
    """Returns why a type does not hold all the values; empty where it does."""
    try:
        values.cast(kind)
    except pa.ArrowInvalid as error:
        return str(error).splitlines()[0]
    return ""


def _leaves(table: pa.Table) -> Iterator[tuple[Path, pa.Array]]:
    """Yields the values of each column, those within lists, objects, maps and dictionaries by themselves."""
    for name in table.column_names:
        for chunk in table.column(name).chunks or [pa.nulls(0, table.column(name).type)]:
            yield from _within((name,), chunk)


def _within(path: Path, values: pa.Array) -> Iterator[tuple[Path, pa.Array]]:
    kind = values.type
    if pa.types.is_struct(kind):
        for part, within in zip(kind.fields, values.flatten(), strict=True):
            yield from _within((*path, part.name), within)
    elif pa.types.is_map(kind):
        items = pa.list_(pa.struct([kind.key_field, kind.item_field]))
        yield from _within(path, values.cast(items))
    elif pa.types.is_dictionary(kind):
        yield from _within(path, values.dictionary)
    elif pa.types.is_nested(kind):
        yield from _within(path, values.flatten())
    else:
        yield path, values


@dataclass
class CorpusScan:
    """Result of reading the whole corpus once: ids and columns, no texts."""

    rows: dict[str, int] = field(default_factory=dict)
    """Passage id to row, counted over all files."""
    further: FurtherColumns = field(default_factory=FurtherColumns)
    """The user's further columns."""
    files: list[str] = field(default_factory=list)
    firsts: list[int] = field(default_factory=list)
    """The row at which each file begins."""
    units: list[str] = field(default_factory=list)
    """What a row of each file is called."""
    holding: dict[tuple[Question, str], list[str]] = field(default_factory=dict)
    """(question, cut article) to the passages of the article that hold an answer."""
    cut: set[str] = field(default_factory=set)
    """Ids of gold passages that are cut articles."""
    left_out: int = 0
    """Number of passages without text that are left out (`corpus.empty_text`)."""
    moved: dict[Question, Question] = field(default_factory=dict)
    """Question to the same question with the answers that its gold passage still holds, where they stand now."""
    moved_answers: list[str] = field(default_factory=list)
    """One line per answer that was not at its offset and was found again in its passage."""
    lost: dict[Question, str] = field(default_factory=dict)
    """Question whose gold passage holds none of its answers any more, to a line that says so."""
    unheld: list[Question] = field(default_factory=list)
    """Questions without offsets of whose gold passages in the corpus none holds an answer: free answers, or an edit."""

    def begin(self, file: str, row: int, unit: str = "row") -> None:
        """Says that `row`, and the rows after it, are in `file`, and what one is called: a piece where articles are cut."""
        if self.files[-1:] != [file]:
            self.files.append(file)
            self.firsts.append(row)
            self.units.append(unit)

    def location(self, row: int, rows: int = 1) -> str:
        """Returns the file of a row, which is counted over all files, and its number in that file, or those of several
        `rows` from it on."""
        index = bisect_right(self.firsts, row) - 1
        first = row - self.firsts[index] + 1
        unit = self.units[index]
        numbers = f"{unit} {first}" if rows == 1 else f"{unit}s {first}-{first + rows - 1}"
        return f"{shown_names(self.files)[self.files[index]]} {numbers}"

    def lacks_gold(self, question: Question) -> bool:
        """Whether a question that names gold passages has lost them all, or every answer in them."""
        named = question.positive_ids
        return (bool(named) and self.rows.keys().isdisjoint(named)) or self.is_lost(question)

    def is_lost(self, question: Question) -> bool:
        """Whether the gold passage of a question holds none of its answers any more."""
        return bool(self.lost) and question in self.lost  # questions are slow to hash

    def in_passages(self, question: Question) -> Question:
        """Returns the question with each positive that is a cut article replaced by its passages that hold an answer.

        The passages get the article's grade, or the highest grade of several articles. The offsets are dropped,
        because they counted in the article.
        """
        now = self.moved.get(question, question) if self.moved else question
        if not self.holding or question in self.lost:
            return now
        grades: dict[str, int] = {}
        for positive, grade in question.grades.items():
            for id_ in self.holding.get((question, positive), [positive]):
                grades[id_] = max(grade, grades.get(id_, 0))
        if tuple(grades) == question.positive_ids:
            return now
        return replace(now.with_grades(grades), answer_starts=None)

    def unheld_line(self) -> str:
        """Returns the warning about `unheld`; empty if there are none."""
        if not self.unheld:
            return ""
        first = self.unheld[0]
        return (
            f"{counted(len(self.unheld), 'question')} whose gold passages hold none of the answers, which have no offsets: they "
            f"are kept, as for free answers (first: question {first.qid}, passage {first.positive_ids[0]}, "
            f"answer {first.answers[0]!r})"
        )
