"""Checks and conversions of values in the user's files: blank texts, numbers as text, ids, lone surrogates."""

import base64
import math
import re
import unicodedata
from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import partial

import pyarrow as pa

from multiview.errors import InputError

EXACT = 1 << 53
"""The limit up to which float64, the type of fractions, holds every whole number exactly."""

NUL = "\0"

HALVES = re.compile("[\ud800-\udfff]")
HALF = "half a character (a lone surrogate); write the file again as UTF-8"
"""The end of a line about a text that `has_half`."""

_INK = re.compile(
    "[^\0-\x20\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f"
    "\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0001-\U000e01ef]"
)
"""A visible character: no control character, space or mark without width."""


def is_blank(text: str) -> bool:
    r"""Whether a text shows nothing, since it has only white space and characters without width or ink, such as U+200B.

    >>> is_blank(" \u200b\n"), is_blank("a\u200b")
    (True, False)
    """
    return _INK.search(text) is None


FOLDS: dict[str, Callable[[str], str]] = {
    "its normal form": partial(unicodedata.normalize, "NFKC"),
    "white space": lambda id_: "".join(letter for letter in id_ if not is_blank(letter)),
    "case": str.casefold,
    "leading zeros": lambda id_: re.sub(r"(?<!\d)0+(?=\d)", "", id_),
    "a final .0": lambda id_: re.sub(r"\.0+$", "", id_),
}
"""What ids that look the same may differ in, to the function that removes the difference."""


def _folded(id_: str, without: str = "") -> str:
    for name, fold in FOLDS.items():
        id_ = id_ if name == without else fold(id_)
    return id_


def visible(id_: str) -> str:
    r"""Returns an id in quotes, with marks and unusual white space as escapes.

    >>> visible("Zu\u0308rich\xa0")
    "'Zu\\u0308rich\\xa0'"
    """
    letters = (
        letter if letter == " " or unicodedata.category(letter)[0] in "LNPS" else ascii(letter)[1:-1]
        for letter in id_
    )
    return f"'{''.join(letters)}'"


def look_alike(id_: str, ids: Iterable[str], holder: str = "the corpus has") -> str:
    """Returns an id that is not among `ids`, quoted, with the one that looks the same, if any, and how they differ."""
    folded = _folded(id_)
    if (found := next((each for each in ids if _folded(each) == folded), None)) is None:
        return visible(id_)
    differences = [name for name in FOLDS if _folded(id_, name) != _folded(found, name)]
    differences = differences or [name for name, fold in FOLDS.items() if fold(id_) == fold(found)]
    return f"{visible(id_)}; {holder} {visible(found)}, the same but for {' and '.join(differences)}"


ODD = {
    "values that stand for nothing, kept as they are": r"^(NULL|null|\(null\)|\\N|NaN|nan|NA|None|<NA>|N/A|#[A-Z/0]{3,6}[!?]?)$",
    "values in quotes, or as Python writes bytes and lists, kept as they are": r"""^(?s:b?'.*'|b?".*"|\[['"].*\]|\{['"].*\})$""",
    "values with escapes of a database or a workbook (\\n, _x000D_), kept as they are": r'\\("|$|[nrt]([^a-z]|$)|u[0-9a-f]{4})|_x[0-9A-F]{4}_',
    "values that were decoded wrongly (Ã¼, \ufffd), kept as they are": "\ufffd|[ÃÂ][\u0080-\u00bf]|â€|â\u0080|%C3%[89AB]",
    "values with HTML (&amp;, <p>), kept as they are": r"&(amp|lt|gt|quot|nbsp|#[0-9]+|#x[0-9a-fA-F]+);|</(p|a|b|i|div|span|li)>|<br ?/?>",
    "numbers that a spreadsheet may have rounded, kept as they are": r"^[0-9](\.[0-9]+)?[Ee]\+[0-9]+$",
    "numbers behind ', by which a spreadsheet takes them for text, kept as they are": r"^'[0-9.,+-]+$",
    "names of a column's type, kept as they are": r"^(?i:n?varchar|character varying|u?(big)?int(8|16|32|64)?|float(32|64))(\([0-9]+\))?$",
}
"""Kind of remark to the pattern of values that databases, R, pandas, spreadsheets and the like leave behind."""


def is_nan(value: object) -> bool:
    """Whether a value is NaN, which pandas and `json.dumps` write for what is missing."""
    return isinstance(value, float) and math.isnan(value)


def has_half(text: str) -> bool:
    """Whether a text holds half a character (a lone surrogate), which UTF-8 cannot write."""
    return HALVES.search(text) is not None


def check_ids(ids: Iterable[str], location: str) -> None:
    """Raises InputError for an id with a NUL character; `location` begins the line and names the ids."""
    for id_ in ids:
        if NUL in id_:
            raise InputError(cut_id(id_, location))


def cut_id(id_: str, location: str) -> str:
    """Returns the line about an id with a NUL character."""
    return f"{location} {id_!r:.80} holds a NUL character, at which trec_eval would end it; write it without"


def id_text(value: object, location: str) -> str:
    """Returns an id as text, a number as in a column of ids. Raises InputError for a fraction of 2**53 or more."""
    if isinstance(value, float) and abs(value) >= EXACT:
        raise inexact(value, location)
    return number_text(value)


def inexact(value: float, location: str, bits: int = 53) -> InputError:
    return InputError(f"{location} holds {value!r}, a fraction with more than {bits} bits; write it as text")


def number_text(value: object) -> str:
    """Returns a number as text, as in a column of ids.

    >>> number_text(1.0), number_text(1.5), number_text(123456789012.0), number_text(1 << 70)
    ('1', '1.5', '123456789012', '1180591620717411303424')
    """
    return str(number_texts(pa.array([value]))[0]) if isinstance(value, float | Decimal) else str(value)


def number_texts(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Returns a column of numbers as text, whole values below 2**53 with all digits and without pandas's .0."""
    if pa.types.is_decimal(column.type):  # Arrow would write a zero of BigQuery's as 0E-9
        values = column.to_pylist()
        texts = [None if value is None else re.sub(r"\.0+$", "", f"{value:f}") for value in values]
        return pa.array(texts, pa.string())
    texts = column.cast(pa.string()).to_pylist()
    if pa.types.is_floating(column.type):
        for row, value in enumerate(column.to_pylist()):
            if value is not None and value.is_integer() and abs(value) < EXACT:
                texts[row] = str(int(value))
    return pa.array(texts, pa.string())


def shown_value(value: object) -> str:
    """Returns, as text, a value that JSON has no form for; bytes that are not UTF-8 become base64."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    return str(value)
