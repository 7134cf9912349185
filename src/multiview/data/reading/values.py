"""Values of the user's files: texts that show nothing, numbers as texts, ids, and halves of characters."""

from __future__ import annotations

import base64
import contextlib
import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pyarrow as pa

from multiview.errors import InputError

EXACT = 1 << 53
"""The largest whole number below which a fraction's type, float64, has every one."""

NUL = "\0"

HALVES = re.compile("[\ud800-\udfff]")

_INK = re.compile(
    "[^\0-\x20\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f"
    "\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0001-\U000e01ef]"
)
"""A character with ink: none of the controls, spaces, and marks without width."""


def is_blank(text: str) -> bool:
    r"""Whether a text shows nothing: it has only white space, and characters without width or ink such as U+200B.

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
"""What ids differ in that look the same, to what makes them equal."""


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
    """Returns an id that is not among `ids`, in quotes, with the one of them that looks the same, and why it does not equal it."""
    folded = _folded(id_)
    found = next((each for each in ids if _folded(each) == folded), None)
    if found is None:
        return visible(id_)
    differences = [name for name in FOLDS if _folded(id_, name) != _folded(found, name)]
    return f"{visible(id_)}; {holder} {visible(found)}, the same but for {' and '.join(differences)}"


def add_nested(row: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Adds to a row each value that is named by a path, such as `_source.text`, unless a column is called so; returns the row.

    Objects may be JSON in a text; of a list of objects each one's value is taken.

    >>> add_nested({"a": {"b": 1}}, ["a.b", "a.c"])
    {'a': {'b': 1}, 'a.b': 1}
    """
    for name in names:
        root, _, path = name.partition(".")
        if path and name not in row and root in row:
            with contextlib.suppress(KeyError):
                row[name] = _value_at(row[root], path)
    return row


def _value_at(value: Any, path: str) -> Any:
    """Returns the value at a path within objects. Raises KeyError where there is none."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(value)
    if isinstance(value, list):
        inner: list[Any] = []
        for each in value:
            with contextlib.suppress(KeyError):
                inner.append(_value_at(each, path))
        if value and not inner:
            raise KeyError(path)
        return [item for each in inner for item in (each if isinstance(each, list) else [each])]
    if not isinstance(value, dict):
        raise KeyError(path)
    name, _, rest = path.partition(".")
    return _value_at(value[name], rest) if rest and path not in value else value[path]


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
            raise cut_id(id_, location)


def cut_id(id_: str, location: str) -> InputError:
    """Returns the error about an id with a NUL character, at which trec_eval, a program in C, would end it."""
    return InputError(
        f"{location} {id_!r:.80} holds a NUL character, at which trec_eval would end it; write the id without"
    )


def id_text(value: object, location: str) -> str:
    """Returns an id as text, a number as in a column of ids. Raises InputError for a fraction of 2**53 or more."""
    if isinstance(value, float) and abs(value) >= EXACT:
        raise inexact(value, location)
    return number_text(value) if isinstance(value, float) else str(value)


def inexact(value: float, location: str) -> InputError:
    return InputError(
        f"{location} holds {value!r}, a fraction whose last digits are lost beyond 53 bits; write it as text"
    )


def number_text(value: float) -> str:
    """Returns a number as text, as in a column of ids.

    >>> number_text(1.0), number_text(1.5), number_text(123456789012.0), number_text(1 << 70)
    ('1', '1.5', '123456789012', '1180591620717411303424')
    """
    if not isinstance(value, float):
        return str(value)
    whole = value.is_integer() and abs(value) < EXACT
    return str(int(value)) if whole else str(pa.scalar(value, pa.float64()).cast(pa.string()))


def number_texts(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Returns a column of numbers as text: a fraction of the value 12, which pandas makes of it beside a missing value, as 12.

    Whole values below 2**53 are written with all digits, all others as Arrow writes them.
    """
    texts = column.cast(pa.string()).to_pylist()
    if pa.types.is_floating(column.type):
        for row, value in enumerate(column.to_pylist()):
            if value is not None and value.is_integer() and abs(value) < EXACT:
                texts[row] = str(int(value))
    return pa.array(texts, pa.string())


def shown_value(value: object) -> str:
    """Returns a value that JSON has no form for as text; bytes that are not UTF-8 as base64."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    return str(value)
