"""Numbers as texts: ids that a file holds as numbers, and texts that are numbers."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from multiview.errors import InputError

EXACT = 1 << 53
"""The largest whole number below which a fraction's type, float64, has every one."""


def number_texts(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Returns a column of numbers as text: a fraction of the value 12, which pandas makes of it beside a missing value, as 12.

    Whole values below 2**53 are written with all digits, all others as Arrow writes them.
    """
    if not pa.types.is_floating(column.type):
        return column.cast(pa.string())
    wide = column.cast(pa.float64())
    exact = pc.call_function("less", [pc.call_function("abs", [wide]), pa.scalar(float(EXACT))])
    whole = pc.call_function("equal", [pc.call_function("trunc", [wide]), wide])
    digits = pc.call_function(
        "if_else", [pc.call_function("and", [exact, whole]), wide, pa.scalar(None, pa.float64())]
    )
    return pc.call_function("coalesce", [digits.cast(pa.int64()).cast(pa.string()), column.cast(pa.string())])


def number_text(value: float) -> str:
    """Returns a number as text, as in a column of ids.

    >>> number_text(1.0), number_text(1.5), number_text(123456789012.0), number_text(1 << 70)
    ('1', '1.5', '123456789012', '1180591620717411303424')
    """
    if not isinstance(value, float):
        return str(value)
    whole = value.is_integer() and abs(value) < EXACT
    return str(int(value)) if whole else str(pa.scalar(value, pa.float64()).cast(pa.string()))


def id_text(value: object, location: str) -> str:
    """Returns an id as text, a number as in a column of ids. Raises InputError for a fraction of 2**53 or more."""
    if not isinstance(value, float):
        return str(value)
    if abs(value) >= EXACT:
        raise inexact(value, location)
    return number_text(value)


def inexact(value: float, location: str) -> InputError:
    return InputError(
        f"{location} holds {value!r}, a fraction whose last digits are lost beyond 53 bits; write it as text"
    )
