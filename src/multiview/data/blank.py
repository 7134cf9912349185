"""Texts that show nothing: white space, and characters without width or ink such as U+200B."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

_INKLESS = (
    "\\x{00ad}\\x{034f}\\x{061c}\\x{115f}\\x{1160}\\x{17b4}\\x{17b5}\\x{180b}-\\x{180f}\\x{200b}-\\x{200f}"
    "\\x{2028}-\\x{202f}\\x{205f}-\\x{206f}\\x{2800}\\x{3000}\\x{3164}\\x{fe00}-\\x{fe0f}\\x{feff}\\x{ffa0}"
    "\\x{fff9}-\\x{fffb}\\x{e0001}-\\x{e01ef}"
)
"""Characters without ink beyond the controls and spaces of Latin-1, for Arrow's regular expressions (RE2)."""

_ANY_INK = f"[^\\x{{0000}}-\\x{{0020}}\\x{{007f}}-\\x{{00a0}}\\x{{1680}}\\x{{2000}}-\\x{{200a}}{_INKLESS}]"

_INK = re.compile(re.sub(r"\\x\{(\w+)\}", lambda match: re.escape(chr(int(match[1], 16))), _ANY_INK))


def is_blank(text: str) -> bool:
    r"""Whether a text shows nothing.

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
