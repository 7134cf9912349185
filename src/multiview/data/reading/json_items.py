"""The items of the one long list in a file of JSON, as SQuAD's and DPR's files have it, one at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO, Any

from multiview.data.reading.files import base_name, open_stream
from multiview.errors import InputError

DEEPEST = 500
"""Most objects and lists within each other: ijson would take gigabytes for 200 kB of brackets."""

HALF = re.compile(
    rb"(?<!\\)(?:\\\\)*"
    rb"(?:\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)
"""Half a character (a lone surrogate), which ijson would read as a question mark."""

OPEN_ESCAPE = re.compile(rb"\\(?:u[0-9a-fA-F]{0,3}|u[dD][89abAB]..(?:\\(?:u[0-9a-fA-F]{0,3})?)?)?\Z")
"""The end of a block within an escape, or between the two of one character."""


def json_items(file: str, key: str = "") -> Iterator[Any]:
    """Yields the items of the list that a file of JSON is, or that its object has under `key`.

    Raises InputError for a key given twice in an object, where a parser would keep the last value, for deep nesting
    and for half a character.
    """
    around = 2 if key else 1  # what is open where an item begins
    opened: list[Any] = []
    keys: list[str] = []  # the last key of each open object
    with open_stream(file) as stream:
        for kind, value in _events(stream, file):
            if kind == "map_key":
                if value in opened[-1]:
                    within = "within an item of" if len(opened) > around else "in the object around"
                    raise InputError(f"{file}: {value!r} is given twice {within} the list; give it once")
                keys[-1] = value
                continue
            if kind in ("start_map", "start_array"):
                if len(opened) == DEEPEST:
                    raise InputError(
                        f"{base_name(file)}: objects or lists are nested more than {DEEPEST} deep; is it data?"
                    )
                opened.append({} if kind == "start_map" else [])
                keys.append("")
                continue
            if kind in ("end_map", "end_array"):
                value = opened.pop()
                keys.pop()
            if not opened:
                continue
            if isinstance(opened[-1], dict):
                opened[-1][keys[-1]] = value
            elif len(opened) == around and keys[0] == key:
                yield value
            else:
                opened[-1].append(value)


def _events(stream: IO[bytes], file: str) -> Iterator[tuple[str, Any]]:
    """Yields ijson's events. It is imported only here: where a GPU works, files of JSON are seldom read."""
    import ijson

    try:
        yield from ijson.basic_parse(_WholeCharacters(stream, file), use_float=True)
    except ijson.JSONError as error:
        if "integer overflow" in str(error):
            line = "holds a whole number of more than 64 bits; write it as text, in quotes"
            raise InputError(f"{file}: {line}") from error
        raise ValueError(str(error)) from error


class _WholeCharacters:
    """A stream of JSON. Raises InputError at an escape that is half a character."""

    def __init__(self, stream: IO[bytes], file: str) -> None:
        self._stream, self._file = stream, file

    def read(self, size: int = -1) -> bytes:
        """Returns the next bytes, a few more than `size` where an escape would be cut."""
        block = self._stream.read(size)
        while OPEN_ESCAPE.search(block, max(0, len(block) - 11)) and (more := self._stream.read(1)):
            block += more
        if (b"\\ud" in block or b"\\uD" in block) and HALF.search(block):
            raise InputError(
                f"{base_name(self._file)}: holds half a character (a lone surrogate); write the file again as UTF-8"
            )
        return block
