"""Comparisons of a column of Arrow values with one value, row by row, exactly and without a third truth value."""

# pyarrow.compute defines its functions when it is imported, so pyright does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import ROUND_FLOOR, Decimal
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from multiview.errors import InputError

Value: TypeAlias = str | bool | int | float
Mask: TypeAlias = np.ndarray
"""Whether each row satisfies something [rows] bool."""
Comparator: TypeAlias = Callable[[pa.Array], Mask]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
"""Digits of a second that a unit of time has."""
FINER = re.compile(r"([.,]\d{6})(\d+)")
"""The digits of a second up to the sixth, and those behind it."""

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
    if isinstance(value, int | float) and not isinstance(value, bool):
        if pa.types.is_integer(kind):
            return _with_whole(kind, symbol, _decimal(value))
        if isinstance(kind, pa.Decimal128Type | pa.Decimal256Type):
            return _with_decimal(kind, symbol, _decimal(value))
    if isinstance(kind, pa.TimestampType) and isinstance(value, str):
        return _with_time(kind, symbol, value)
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


def _with_whole(kind: pa.DataType, symbol: str, value: Decimal) -> Comparator:
    """A comparison of whole numbers with any number."""
    bits = kind.bit_width
    low, high = (
        (0, 2**bits - 1) if pa.types.is_unsigned_integer(kind) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    )
    return _in_units(symbol, value, low, high, lambda whole: pa.scalar(whole, kind))


def _with_decimal(kind: pa.Decimal128Type | pa.Decimal256Type, symbol: str, value: Decimal) -> Comparator:
    """A comparison of decimals with any number, in units of their last digit."""
    most = 10**kind.precision - 1
    return _in_units(
        symbol,
        _times_ten(value, kind.scale),
        -most,
        most,
        lambda whole: pa.scalar(_times_ten(Decimal(whole), -kind.scale), kind),
    )


def _with_time(kind: pa.TimestampType, symbol: str, value: str) -> Comparator:
    """A comparison of points in time with any other one, in the column's unit."""
    try:
        seconds = _seconds(value, kind.tz is not None)
    except ValueError as error:
        raise InputError(f"of type {kind} cannot be compared with {value!r}: {error}") from None
    return _in_units(
        symbol,
        _times_ten(seconds, DIGITS[kind.unit]),
        -(2**63),
        2**63 - 1,
        lambda whole: pa.scalar(whole, pa.int64()).cast(kind),
    )


def _in_units(
    symbol: str, value: Decimal, low: int, high: int, scalar_of: Callable[[int], pa.Scalar]
) -> Comparator:
    """The comparison of a column of whole units between `low` and `high` with a value, which may lie between two of them.

    `scalar_of` makes a number of units one of the column's values.
    """
    whole = int(value.to_integral_value(ROUND_FLOOR))
    if whole != value:
        if symbol == "==":
            return lambda column: np.zeros(len(column), bool)
        symbol = "<=" if symbol in ("<", "<=") else ">"
    if not low <= whole <= high:
        beyond = (symbol in ("<", "<=") and whole > high) or (symbol in (">", ">=") and whole < low)
        return lambda column: ~missing(column) if beyond else np.zeros(len(column), bool)
    scalar = scalar_of(whole)
    return lambda column: _call(symbol, column, scalar)


def _times_ten(value: Decimal, digits: int) -> Decimal:
    """The value times ten to the power of `digits`, to the last digit."""
    sign, own, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    return Decimal((sign, own, exponent + digits))


def _decimal(value: float) -> Decimal:
    """The number as it was written. Raises InputError for one that is not finite."""
    if not math.isfinite(value):
        raise InputError("is compared with numbers that are finite")
    return Decimal(str(value))


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
        if pa.types.is_date(kind) and isinstance(value, str):
            return pa.scalar(date.fromisoformat(value), kind)
    except (ValueError, OverflowError, pa.ArrowException) as error:
        raise InputError(f"of type {kind} cannot be compared with {value!r}: {error}") from None
    wanted = _wanted(kind)
    raise InputError(
        f"is of type {kind}: compare it with {wanted}" if wanted else f"of type {kind} cannot be compared"
    )


def _seconds(value: str, zoned: bool) -> Decimal:
    """The seconds from 1970 to a point in time; without a zone, UTC where the column has one, else taken as it is.

    Raises ValueError for a text that is no such time.
    """
    # `fromisoformat` drops digits after the sixth.
    finer = FINER.search(value)
    time = datetime.fromisoformat(FINER.sub(r"\1", value))
    if time.tzinfo and not zoned:
        raise ValueError("its times have no zone")
    since = (time if time.tzinfo else time.replace(tzinfo=UTC)) - EPOCH
    microseconds = (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds
    digits = finer[2] if finer else ""
    return _times_ten(Decimal(microseconds * 10 ** len(digits) + int(digits or 0)), -6 - len(digits))


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
