"""The user's further columns of all files: each gets one type, which has to hold all its values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

from multiview.data.reading.readers import PASSAGE_COLUMNS
from multiview.errors import InputError

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
