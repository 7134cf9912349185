"""Rows as Arrow tables: each column has one type, and objects become JSON."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from types import NoneType
from typing import Any, TypeAlias

import pyarrow as pa

from multiview.data.reading.columns import add_nested
from multiview.data.reading.files import base_name
from multiview.data.reading.values import EXACT, HALF, is_nan, number_text
from multiview.errors import InputError

Row: TypeAlias = dict[str, Any]
"""A row of a table or a file: column to value. The columns are the user's, and so are the types of the values."""

BATCH = 1000
"""Rows per table."""

TEXTS, LISTS, BOOLEANS, INFINITE = "texts or numbers", "lists", "true and false", "infinite numbers"
"""Kinds of values that no column can hold together; only columns of numbers hold infinite ones."""
OBJECT_AT = b"multiview.object_at"
"""Key of a field's metadata: the location of the first object in the column."""


def tables_of_rows(rows: Iterable[Row], file: str) -> Iterator[pa.Table]:
    """Yields rows as tables of up to 1000 rows each, with every column that any of their rows has."""
    iterator, first = iter(rows), 1
    while batch := list(islice(iterator, BATCH)):
        names = dict.fromkeys(name for row in batch for name in row)
        columns = [_column([row.get(name) for row in batch], name, file, first) for name in names]
        yield pa.table([array for _, array in columns], schema=pa.schema([field for field, _ in columns]))
        first += len(batch)


def with_nested_columns(tables: Iterable[pa.Table], names: Iterable[str], file: str) -> Iterator[pa.Table]:
    """Yields the tables, with columns appended for those `names` that are paths into objects (`add_nested`)."""
    first = 1
    for table in tables:
        for name in names:
            root = name.partition(".")[0]
            if root == name or name in table.column_names or root not in table.column_names:
                continue
            objects = table.column(root).to_pylist(maps_as_pydicts="lossy")
            rows = [add_nested({root: each}, [name]) for each in objects]
            if any(name in row for row in rows):
                table = table.append_column(*_column([row.get(name) for row in rows], name, file, first))
        first += len(table)
        yield table


def _column(values: Sequence[object], name: str, file: str, first: int) -> tuple[pa.Field, pa.Array]:
    """Returns a column whose type is inferred from its values, the first of which is in row `first` of `file`.

    Numbers among texts become texts. NaN among other values, which pandas and `json.dumps` write, becomes null.
    """
    nested = next((row for row, value in enumerate(values, first) if _is_nested(value)), None)
    if nested is not None:
        values = ["[]" if value == [] else value for value in values]
    types = set(map(type, values))
    try:
        if not (types <= {str, NoneType} or types <= {int, float, NoneType}):
            _refuse_other_kind(values, name, file, first)
            values = [_plain(value) for value in values]
        array = pa.array(values)
        metadata = None if nested is None else {OBJECT_AT: f"{base_name(file)} row {nested}"}
        return pa.field(name, array.type, metadata=metadata), array
    except OverflowError:
        reason = f"column {name!r} holds a whole number of more than 64 bits; write it as text"
    except UnicodeEncodeError:
        reason = f"column {name!r} holds {HALF}"
    except (pa.ArrowException, TypeError, RecursionError):
        if any(isinstance(value, int) and abs(value) > EXACT for value in values):
            reason = f"column {name!r} holds a whole number of more than 53 bits beside fractions; write them as text"
        else:
            reason = f"lists of column {name!r} hold values of different types; give them one type"
    raise InputError(f"{base_name(file)} rows {first}-{first + len(values) - 1}: {reason}")


def _plain(value: object) -> object:
    """Returns an object as JSON, a number as text, and NaN as null."""
    if _is_nested(value):
        return json.dumps(value, ensure_ascii=False)
    if is_nan(value):
        return None
    return number_text(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _refuse_other_kind(values: Sequence[object], name: str, file: str, first: int) -> None:
    """Raises InputError for the first value of another kind than most; numbers, texts and objects count as one kind."""
    kinds = {row: kind for row, value in enumerate(values) if (kind := _kind(value))}
    counts = Counter(kinds.values())
    expected = max(counts, key=lambda kind: (counts[kind], kind == TEXTS), default="")
    for row, kind in kinds.items():
        if kind != expected:
            raise InputError(
                f"{base_name(file)} row {first + row}: column {name!r} holds {values[row]!r:.80}, and other rows "
                f"{expected}; give it one type"
            )


def _kind(value: object) -> str:
    """Returns the kind of a value; empty for what is missing."""
    if value is None or is_nan(value):
        return ""
    if isinstance(value, float) and math.isinf(value):
        return INFINITE
    if isinstance(value, bool):
        return BOOLEANS
    return LISTS if isinstance(value, list) and not _is_nested(value) else TEXTS


def _is_nested(value: object) -> bool:
    """Whether a value holds objects, which become JSON: fields differ per row, and Parquet has no empty struct."""
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(v, dict) for v in value))
