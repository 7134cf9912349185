"""Comparisons of a column of Arrow values with one value, row by row, exactly and without a third truth value."""

# pyarrow.compute defines its functions when it is imported, so pyright does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from multiview.errors import InputError

Value: TypeAlias = str | bool | int | float
Mask: TypeAlias = np.ndarray
"""Whether each row satisfies something [rows] bool."""
Comparator: TypeAlias = Callable[[pa.Array], Mask]

FUNCTIONS = {"==": "equal", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}


def comparator(kind: pa.DataType, symbol: str, value: Value) -> Comparator:
    """Returns the comparison of columns of a type with a value: `symbol` is ==, <, <=, > or >=.

    Rows without a value satisfy none. Raises InputError, as the end of a sentence about the column, where values of the
    type cannot be compared with `value`.
    """
    if isinstance(kind, pa.DictionaryType):
        compare = comparator(kind.value_type, symbol, value)
        return lambda column: compare(column.dictionary_decode())
    if pa.types.is_null(kind):
        return lambda column: np.zeros(len(column), bool)
    if pa.types.is_integer(kind) and isinstance(value, int | float) and not isinstance(value, bool):
        return _with_whole(kind, symbol, value)
    if pa.types.is_floating(kind):
        kind = pa.float64()
    scalar = _scalar(kind, value)
    return lambda column: _call(symbol, column.cast(kind), scalar)


def missing(column: pa.Array) -> Mask:
    """Returns which rows have no value: null, or NaN."""
    return column.is_null(nan_is_null=pa.types.is_floating(column.type)).to_numpy(zero_copy_only=False)


def truth(column: pa.Array) -> Mask:
    """Returns which rows of a column of booleans are true."""
    return column.fill_null(False).to_numpy(zero_copy_only=False)


def within_lists(column: pa.Array, equal: Comparator) -> Mask:
    """Returns which rows of a column of lists have an element that `equal` accepts."""
    mask = np.zeros(len(column), bool)
    mask[pc.list_parent_indices(column).to_numpy()[equal(pc.list_flatten(column))]] = True
    return mask


def _call(symbol: str, column: pa.Array, scalar: pa.Scalar) -> Mask:
    return truth(pc.call_function(FUNCTIONS[symbol], [column, scalar]))


def _with_whole(kind: pa.DataType, symbol: str, value: float) -> Comparator:
    """A comparison of whole numbers: with the next whole number where `value` is none, since floats are not exact."""
    if not math.isfinite(value):
        raise InputError("is compared with numbers that are finite")
    whole = math.floor(value)
    if whole != value:
        if symbol == "==":
            return lambda column: np.zeros(len(column), bool)
        symbol = "<=" if symbol in ("<", "<=") else ">"
    bits = kind.bit_width
    low, high = (
        (0, 2**bits - 1) if pa.types.is_unsigned_integer(kind) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    )
    if not low <= whole <= high:
        beyond = (symbol in ("<", "<=") and whole > high) or (symbol in (">", ">=") and whole < low)
        return lambda column: ~missing(column) if beyond else np.zeros(len(column), bool)
    scalar = pa.scalar(whole, kind)
    return lambda column: _call(symbol, column, scalar)


def _scalar(kind: pa.DataType, value: Value) -> pa.Scalar:
    """The value as one of a column's type."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        if (pa.types.is_string(kind) or pa.types.is_large_string(kind)) and isinstance(value, str):
            return pa.scalar(value, kind)
        if pa.types.is_boolean(kind) and isinstance(value, bool):
            return pa.scalar(value)
        if pa.types.is_float64(kind) and number:
            return pa.scalar(float(value), kind)
        if pa.types.is_decimal(kind) and number:
            return pa.scalar(Decimal(str(value)))
        if pa.types.is_date(kind) and isinstance(value, str):
            return pa.scalar(date.fromisoformat(value), kind)
        if isinstance(kind, pa.TimestampType) and isinstance(value, str):
            return pa.scalar(_time(value, kind.tz is not None), kind)
    except (ValueError, OverflowError, pa.ArrowException) as error:
        raise InputError(f"of type {kind} cannot be compared with {value!r}: {error}") from None
    wanted = _wanted(kind)
    raise InputError(
        f"is of type {kind}: compare it with {wanted}" if wanted else f"of type {kind} cannot be compared"
    )


def _time(value: str, zoned: bool) -> datetime:
    """A point in time; without a zone, UTC where the column has one, and taken as it is elsewhere."""
    time = datetime.fromisoformat(value)
    if zoned:
        return time if time.tzinfo else time.replace(tzinfo=UTC)
    if time.tzinfo:
        raise ValueError("its times have no zone")
    return time


def _wanted(kind: pa.DataType) -> str:
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "a string in quotes"
    if pa.types.is_boolean(kind):
        return "true or false"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "a number"
    if pa.types.is_date(kind):
        return 'a day, such as "2020-01-31"'
    return 'a time, such as "2020-01-31T12:00:00"' if pa.types.is_timestamp(kind) else ""
