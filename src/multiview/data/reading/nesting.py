"""Refusal of JSON that is nested so deeply that a parser would need gigabytes for it."""

from __future__ import annotations

from typing import Protocol

import ijson

from multiview.data.reading.files import base_name, open_stream
from multiview.errors import InputError

DEEPEST = 500
"""Most objects and lists within each other; SQuAD's and DPR's files have fewer than ten."""
PIECE = 4096
"""Bytes whose brackets are counted together."""


class Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


def too_deep(file: str) -> InputError:
    return InputError(f"{base_name(file)}: objects or lists are nested more than {DEEPEST} deep; is it data?")


class ShallowJson:
    """A stream of JSON for a parser. Raises InputError where it is nested more than `DEEPEST` deep.

    ijson keeps the path of each level, so 200 kB of brackets take 24 GB. Brackets are counted by bytes, those in
    strings too, which takes no time; where they are many, the file is read once more to count those that nest.
    """

    def __init__(self, stream: Readable, file: str) -> None:
        self._stream, self._file = stream, file
        self._open, self._known_shallow = 0, False

    def read(self, size: int = -1) -> bytes:
        """Returns the next bytes of the stream."""
        block = self._stream.read(size)
        for first in range(0, 0 if self._known_shallow else len(block), PIECE):
            piece = block[first : first + PIECE]
            opened, closed = piece.count(b"[") + piece.count(b"{"), piece.count(b"]") + piece.count(b"}")
            if self._open + opened - closed > DEEPEST:
                check_nesting(self._file)
                self._known_shallow = True
                break
            self._open = max(0, self._open + opened - closed)
        return block


def check_nesting(file: str) -> None:
    """Reads a file of JSON. Raises InputError where it is nested more than `DEEPEST` deep."""
    depth = 0
    with open_stream(file) as stream:
        for event, _ in ijson.basic_parse(stream):
            depth += event in ("start_array", "start_map")
            depth -= event in ("end_array", "end_map")
            if depth > DEEPEST:
                raise too_deep(file)
