"""The user's further columns, whose types may differ from table to table."""

# pyarrow.compute fills itself with functions when imported, which pyright cannot see.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from multiview.data.reading.columns import PASSAGE_COLUMNS
from multiview.data.reading.values import NUL
from multiview.errors import InputError


def _leaves_of(name: str, values: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """Yields the values of a column or, of lists, maps and objects, those within; a NUL is between the names of a path."""
    kind = values.type
    if pa.types.is_struct(kind):
        inner = zip((f"{NUL}{field.name}" for field in kind), values.flatten(), strict=True)
    elif pa.types.is_map(kind):
        inner = zip((f"{NUL}key", f"{NUL}value"), (values.keys, values.items), strict=True)
    elif pa.types.is_nested(kind):
        inner = [(NUL, values.flatten())]
    else:
        yield name, values
        return
    for path, each in inner:
        yield from _leaves_of(f"{name}{path}", each)


class FurtherColumns:
    """The further columns of all tables so far; a column is null in tables that lack it."""

    def __init__(self) -> None:
        self.schema = pa.schema([])
        """The columns, each with the type of all its tables."""
        self._leaves = pa.schema([])
        """Schema of the values within lists and objects, under the names of `_leaves_of`."""
        self._extremes: dict[tuple[str, pa.DataType], tuple[pa.Array, str]] = {}
        """Name and type of such values to the least and greatest of them, and the location of one."""

    def add(self, table: pa.Table, location: Callable[[], str]) -> None:
        """Adds a table, whose rows are at `location`. Raises InputError where no type holds a column's values of all tables."""
        further = table.drop_columns([name for name in PASSAGE_COLUMNS if name in table.column_names])
        columns = zip(further.column_names, further.columns, strict=True)
        leaves = dict(leaf for name, each in columns for leaf in _leaves_of(name, each.combine_chunks()))
        within = pa.schema([(key, values.type) for key, values in leaves.items()])
        self._unify(further.schema, within, location)
        for key, values in leaves.items():
            kind = values.type
            if pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
                known, _ = self._extremes.get((key, kind), (values.slice(0, 0), ""))
                both = pa.concat_arrays([known, values])
                numbers = both.cast(pa.int64()) if pa.types.is_duration(kind) else both
                ends = pa.array(pc.min_max(numbers).values(), numbers.type).cast(kind)
                if not ends.equals(known):
                    self._extremes[key, kind] = ends, location()
        for (key, kind), (ends, where) in self._extremes.items():
            if kind != (common := self._leaves.field(key).type):
                try:
                    ends.cast(common)
                except pa.ArrowInvalid as error:
                    raise InputError(
                        f"{where}: column {key.partition(NUL)[0]!r} has {kind} values that do not fit {common}, the type of the whole column "
                        f"({str(error).splitlines()[0]}); write it as text"
                    ) from None

    def _unify(self, further: pa.Schema, within: pa.Schema, location: Callable[[], str]) -> None:
        try:
            unified = pa.unify_schemas([self.schema, further], promote_options="permissive")
            leaves = pa.unify_schemas([self._leaves, within], promote_options="permissive")
            for column in (*self._leaves, *within):
                if column.type != (kind := leaves.field(column.name).type):
                    pa.nulls(1, column.type).cast(kind)
        except pa.ArrowException:
            named = ", ".join(
                f"{f.name!r} ({f.type} after {self.schema.field(f.name).type})"
                for f in further
                if f.name in self.schema.names and f.type != self.schema.field(f.name).type
            )
            raise InputError(
                f"{location()}: the type differs from that of the rows before in column {named}; give a column one type"
            ) from None
        self.schema, self._leaves = unified, leaves
