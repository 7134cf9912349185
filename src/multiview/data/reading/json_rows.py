"""Objects of JSON, one per line or in a list. Duplicate keys, lone surrogates and deep nesting are refused."""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from typing import IO, Any

from multiview.data.reading.delimited import DELIMITERS, delimited_rows
from multiview.data.reading.files import base_name, head, is_parquet, lines, open_stream, plain_name
from multiview.data.reading.parquet import parquet_rows
from multiview.data.reading.tables import Row
from multiview.data.reading.values import HALF, has_half
from multiview.errors import InputError

DEEPEST = 500
"""Deepest nesting of objects and lists."""
BUFFER = 4096
MARKS = 500
LONGEST = 1 << 24
"""ijson gets blocks of at least `BUFFER` bytes, which grow up to `MARKS` brackets and commas or `LONGEST` bytes.

With more marks they would need too much memory: ijson keeps a path for every open level, gigabytes for 64 KB of
brackets. With fewer bytes they would need too much time: ijson starts a long string again with every block.
"""
LONE = re.compile(
    rb"(?<!\\)(?:\\\\)*"
    rb"(?:\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)
"""Pattern of a lone surrogate, half of a character, which ijson would read as a question mark."""
OPEN_ESCAPE = re.compile(rb"\\(?:u[0-9a-fA-F]{0,3}|u[dD][89abAB]..(?:\\(?:u[0-9a-fA-F]{0,3})?)?)?\Z")
"""The end of a block that cuts an escape in two, or parts the two escapes of one character."""


def rows_of(file: str) -> Iterator[Row]:
    """Yields the rows of a Parquet, CSV or TSV file, a JSON list or JSON lines, as its beginning and name tell."""
    beginning = head(file, whole_line=False)
    if is_parquet(beginning):
        yield from parquet_rows(file)
    elif (mark := DELIMITERS.get(plain_name(file)[-3:])) and not beginning.lstrip().startswith(("[", "{")):
        yield from delimited_rows(file, mark)
    elif not beginning.lstrip().startswith("["):
        yield from _json_lines(file)
    else:
        for number, row in enumerate(json_items(file), 1):
            if not isinstance(row, dict):
                line = "not a JSON object; triples of ids belong into a file triples*.tsv, between tabs"
                raise InputError(f"{base_name(file)} row {number}: {line}")
            yield row


def _once(pairs: list[tuple[str, Any]]) -> Row:
    """Returns an object of JSON. Raises ValueError for a key given twice, where Python would keep the last value."""
    row = dict(pairs)
    if len(row) < len(pairs):
        key, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(f"{key!r} is given twice; give it once")
    return row


def _whole(digits: str) -> int:
    """Returns a whole number. Raises ValueError for one of more digits than Python reads."""
    if 0 < (most := sys.get_int_max_str_digits()) < len(digits):  # 0: no limit
        raise ValueError(f"holds a whole number of more than {most:,} digits; write it as text, in quotes")
    return int(digits)


DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_int=_whole)
"""One decoder for all lines: `json.loads` with a hook makes a new one per line, which takes as long as the decoding."""


def _json_lines(file: str) -> Iterator[Row]:
    """Yields the objects of a JSONL file; blank lines are skipped."""
    for number, line in lines(file):
        if line.strip():
            try:
                yield _json_object(line)
            except ValueError as error:
                raise InputError(f"{file} line {number}: {error}") from None


def _json_object(line: str) -> Row:
    """Returns the object of a line. Raises ValueError that says what is wrong."""
    try:
        row = DECODER.decode(line)
    except RecursionError:
        raise ValueError("objects or lists are nested too deeply; is it data?") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error}); one object per line is expected") from None
    if not isinstance(row, dict):
        raise ValueError("not a JSON object; one object per line is expected")
    if ("\\ud" in line or "\\uD" in line) and has_half(json.dumps(row, ensure_ascii=False)):
        raise ValueError(f"holds {HALF}")
    return row


def json_items(file: str, key: str = "") -> Iterator[Any]:
    """Yields the items of the list that a JSON file is or, with `key`, that its object has there.

    Yields nothing without such a list. Raises InputError for a file that is not valid JSON, and for what `_checked`
    refuses.
    """
    import ijson  # late: steps on a GPU seldom read such files

    with open_stream(file) as stream:
        events = ijson.parse(ijson.from_iter(_blocks(stream, file)), use_float=True)
        try:
            yield from ijson.items(_checked(events, file, key), f"{key}.item" if key else "item")
        except (ijson.JSONError, UnicodeDecodeError) as error:
            if isinstance(error, UnicodeDecodeError) or "UTF8" in str(error):
                raise InputError(f"{file}: not UTF-8; convert the file") from error
            if "integer overflow" in str(error):
                line = f"{file}: holds a whole number of more than 64 bits; write it as text, in quotes"
                raise InputError(line) from error
            reason = " ".join(str(error).partition("(right here)")[0].split())
            line = f"{file}: cannot be read ({reason:.300}); is it complete, and one list or object, without NaN or comments? Several are .jsonl, a line each"
            raise InputError(line) from error


def _checked(events: Iterator[tuple[str, str, Any]], file: str, of: str) -> Iterator[tuple[str, str, Any]]:
    """Yields ijson's events. Raises InputError for a repeated key, one like the path of `of`'s items, deep nesting."""
    keys: list[set[str]] = []  # of each open object or list
    for event in events:
        path, kind, value = event
        if kind == "map_key":
            if of and f"{path}.{value}".removeprefix(".") == f"{of}.item":
                raise InputError(f"{file}: a key is called {value!r}, as an item's path; rename it")
            if value in keys[-1]:
                raise InputError(f"{file}: {value!r} is given twice in one object; give it once")
            keys[-1].add(value)
        elif kind in ("start_map", "start_array"):
            if len(keys) == DEEPEST:
                raise InputError(f"{file}: objects or lists are nested more than {DEEPEST} deep; is it data?")
            keys.append(set())
        elif kind in ("end_map", "end_array"):
            keys.pop()
        yield event


def _blocks(stream: IO[bytes], file: str) -> Iterator[bytes]:
    """Yields a JSON file's bytes in blocks that cut no escape in two. Raises InputError for one of half a character."""
    more = stream.read(BUFFER)
    while more:
        block, marks = bytearray(), 0
        while more and marks < MARKS and len(block) < LONGEST:
            block += more
            marks += sum(map(more.count, (b"[", b"{", b",")))
            more = stream.read(BUFFER)
        while more and OPEN_ESCAPE.search(block, max(0, len(block) - 11)):
            block, more = block + more[:1], more[1:] or stream.read(BUFFER)
        if (b"\\ud" in block or b"\\uD" in block) and LONE.search(block):
            raise InputError(f"{base_name(file)}: holds {HALF}")
        yield bytes(block)
