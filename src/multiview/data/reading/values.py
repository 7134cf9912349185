"""Values of the user's files: texts that show nothing, numbers as texts, ids, and halves of characters."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from multiview.errors import InputError

EXACT = 1 << 53
"""The largest whole number below which a fraction's type, float64, has every one."""

NUL = "\0"

HALVES = re.compile("[\ud800-\udfff]")

_INKLESS = (
    "\\x{00ad}\\x{034f}\\x{061c}\\x{115f}\\x{1160}\\x{17b4}\\x{17b5}\\x{180b}-\\x{180f}\\x{200b}-\\x{200f}"
    "\\x{2028}-\\x{202f}\\x{205f}-\\x{206f}\\x{2800}\\x{3000}\\x{3164}\\x{fe00}-\\x{fe0f}\\x{feff}\\x{ffa0}"
    "\\x{fff9}-\\x{fffb}\\x{e0001}-\\x{e01ef}"
)
"""Characters without ink beyond the controls and spaces of Latin-1, for Arrow's regular expressions (RE2)."""

_ANY_INK = f"[^\\x{{0000}}-\\x{{0020}}\\x{{007f}}-\\x{{00a0}}\\x{{1680}}\\x{{2000}}-\\x{{200a}}{_INKLESS}]"

_INK = re.compile(re.sub(r"\\x\{(\w+)\}", lambda match: re.escape(chr(int(match[1], 16))), _ANY_INK))


def is_blank(text: str) -> bool:
    r"""Whether a text shows nothing: it has only white space, and characters without width or ink such as U+200B.

    >>> is_blank(" \u200b\n"), is_blank("a\u200b")
    (True, False)
    """
    return _INK.search(text) is None


def without_blank(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns texts with an empty text for each that shows nothing; `texts` itself where there is none."""
    shown = pc.call_function("match_substring_regex", [texts], pc.MatchSubstringOptions(_ANY_INK))
    if pc.call_function("all", [shown]).as_py() is not False:
        return texts
    return pc.call_function("if_else", [shown, texts, pa.scalar("")])


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
