"""The objects of the one long list in a file of JSON, as SQuAD's and DPR's files have it, one at a time."""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import IO, Any

import ijson

from multiview.config import JsonObject
from multiview.data.reading.files import open_stream
from multiview.data.reading.given_twice import GivenTwice, first_twice, noting, once
from multiview.data.reading.nesting import Readable, ShallowJson
from multiview.data.reading.surrogates import WholeCharacters
from multiview.errors import InputError

BLOCK = 1 << 20
"""Bytes per read."""

LONGEST = 1 << 26
"""Characters of the longest object that is parsed whole."""

TEXT = r'"[\w-]*"\s*:\s*"[^"\\]*"'
"""A text beside the list, such as SQuAD's version."""

KEYS = re.compile(r'"([^"]*)"\s*:')
"""The keys of texts beside the list, and the list's own."""

NEXT = re.compile(r"\s*(?:,\s*(?=\{)|(?P<end>\]))")


def json_items(file: str, key: str = "") -> Iterator[Any]:
    """Yields the items of the list that a file of JSON is, or that its object has under `key`.

    Python's parser takes half of the time of ijson over SQuAD's JSON, but wants each object whole. It reads a list of
    objects as these formats have it; where it finds anything else, ijson reads on, as a stream, and refuses what is
    faulty. Raises InputError for an object that has a key twice, of which either would keep the last value.
    """
    count = 0
    try:
        for item in _objects(file, key):
            yield item
            count += 1
        return
    except GivenTwice as error:
        raise _refused(file, error) from None
    except (InputError, RecursionError):
        pass
    yield from islice(_by_ijson(file, key), count, None)


def _refused(file: str, error: GivenTwice) -> InputError:
    return InputError(f"{file}: {error} in {error.before!r:.80}; give it once")


def _checked(stream: IO[bytes], file: str) -> Readable:
    return ShallowJson(WholeCharacters(stream, file), file)


def _by_ijson(file: str, key: str) -> Iterator[Any]:
    """Yields the items of the list, and reads a file with an object around the list once more for its keys."""
    found: list[GivenTwice] = []
    with open_stream(file) as stream:
        for item in ijson.items(
            _checked(stream, file), f"{key}.item" if key else "item", use_float=True, map_type=noting(found)
        ):
            if found:
                raise _refused(file, found[0])
            yield item
    if key:
        with open_stream(file) as stream:
            events = ijson.parse(_checked(stream, file))
            _check_top(file, (name for prefix, event, name in events if event == "map_key" and not prefix))


def _check_top(file: str, keys: Iterable[str]) -> None:
    """Raises InputError where the object around the list has a key twice: several lists would be read as one."""
    if twice := first_twice(keys):
        raise InputError(f"{file}: {twice!r} is given twice in the object around the list; give it once")


def _objects(file: str, key: str) -> Iterator[JsonObject]:
    """Yields the objects of the list. Raises GivenTwice, and InputError where the file has another form."""
    begin, end = (
        (rf"\{{\s*(?:{TEXT}\s*,\s*)*\"{key}\"\s*:\s*", rf"\s*(?:,\s*{TEXT}\s*)*\}}") if key else ("", "")
    )
    with open_stream(file) as stream:  # which makes an InputError of any ValueError
        unread = _Unread(_checked(stream, file))
        before = unread.take(re.compile(rf"\s*{begin}\[\s*(?=[{{\]])"))[0]
        ended = unread.take(re.compile(r"\]?"))[0]
        while not ended:
            yield unread.take_object()
            ended = unread.take(NEXT)["end"]
        after = unread.take_all(re.compile(rf"{end}\s*"))[0]
        _check_top(file, KEYS.findall(before + after))


class _Unread:
    """The text of a stream that is not parsed yet, of which a part is read.

    Its methods raise ValueError where the text is not what they take.
    """

    def __init__(self, stream: Readable) -> None:
        self._stream, self._decode = stream, codecs.getincrementaldecoder("utf-8")().decode
        decoder = json.JSONDecoder(
            parse_int=_whole, parse_float=_finite, parse_constant=_finite, object_pairs_hook=once
        )
        self._scan = decoder.raw_decode
        self._text, self._position = "", 0

    def take(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """Takes what the pattern matches within a block."""
        match = pattern.match(self._text, self._position)
        if match is None and self._read():
            match = pattern.match(self._text, self._position)
        if match is None:
            raise ValueError(f"not {pattern.pattern}")
        self._position = match.end()
        return match

    def take_object(self) -> JsonObject:
        """Takes the object that the text begins with."""
        while True:
            try:
                found, self._position = self._scan(self._text, self._position)
                return found
            except json.JSONDecodeError:
                if len(self._text) - self._position > LONGEST or not self._read():
                    raise

    def take_all(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """Takes the text to its end, which the pattern matches whole and is no longer than a block."""
        while self._read():
            if len(self._text) > BLOCK:
                raise ValueError("more than an end")
        match = pattern.fullmatch(self._text)
        if match is None:
            raise ValueError(f"not {pattern.pattern}")
        return match

    def _read(self) -> bool:
        """Reads as much again as is unread, a block at least; says whether there was anything."""
        block = self._stream.read(max(BLOCK, len(self._text) - self._position))
        self._text = self._text[self._position :] + self._decode(block, final=not block)
        self._position = 0
        return bool(block)


def _whole(number: str) -> int:
    """Returns a whole number. Raises ValueError for one of more than 64 bits."""
    value = int(number)
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{number} has more than 64 bits")
    return value


def _finite(number: str) -> float:
    """Returns a number. Raises ValueError for one that is infinite, and for NaN."""
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number} is no number of JSON")
    return value
