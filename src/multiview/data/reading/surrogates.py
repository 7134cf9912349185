"""Refusal of lone surrogates in JSON, which Python reads as halves of characters, and a streaming parser as question marks."""

from __future__ import annotations

import re
from typing import IO

from multiview.data.reading.files import base_name
from multiview.errors import InputError

LONGEST = 12
"""Bytes of a character written as two escapes."""
HALF = re.compile(
    rb"(?<!\\)(?:\\\\)*"
    rb"(?:\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)


HALVES = re.compile("[\ud800-\udfff]")


def has_half(text: str) -> bool:
    """Whether a text holds half a character, which UTF-8 cannot write."""
    return HALVES.search(text) is not None


class WholeCharacters:
    """A stream of JSON for a parser. Raises InputError at an escape that is one half of a character (a lone surrogate)."""

    def __init__(self, stream: IO[bytes], file: str) -> None:
        self._stream, self._file, self._last = stream, file, b""

    def read(self, size: int = -1) -> bytes:
        """Returns the next bytes of the stream."""
        block = self._stream.read(size)
        both = self._last + block
        if b"\\ud" in both or b"\\uD" in both:
            # What follows an escape at the end of the block is not known yet; the next call looks at it again.
            begin, end = len(self._last) - LONGEST, len(both) - (LONGEST if block else 0)
            if any(begin < match.end() <= end for match in HALF.finditer(both)):
                raise InputError(
                    f"{base_name(self._file)}: holds half a character (a lone surrogate); write the file again as UTF-8"
                )
        self._last = both[-3 * LONGEST :]
        return block
