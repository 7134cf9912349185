"""Rows under named columns: JSONL, and CSV or TSV with a header; their tables, and their columns under our names."""

from __future__ import annotations

import ast
import contextlib
import csv
import io
import json
import math
import re
import sys
import tokenize
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any, TypeAlias

import pyarrow as pa

from multiview.data.reading.files import base_name, lines, open_stream
from multiview.data.reading.values import EXACT, add_nested, has_half, is_nan, number_text
from multiview.errors import InputError, counted

Row: TypeAlias = dict[str, Any]
"""A row of a table or a file: column to value. The columns are the user's, and so are the types of the values."""

PASSAGE_COLUMNS = {
    "id": ("_id", "pid", "passage_id", "psg_id", "docid", "doc_id", "docno"),
    "title": (),
    "text": ("passage", "passage_text", "contents", "content", "body"),
}
"""Our column names, each with its other names in files of others."""
QUESTION_COLUMNS = {
    "qid": ("_id",),
    "question": ("text",),
    "answers": (),
    "answer_starts": (),
    "positive_ids": (),
    "relevance": (),
    "negative_ids": (),
}

BATCH = 1000
"""Rows per batch."""

TEXTS, LISTS, BOOLEANS, INFINITE = "texts or numbers", "lists", "true and false", "infinite numbers"
"""Kinds of values that no column can hold together."""
OBJECT_AT = b"multiview.object_at"
"""Key of a field's metadata."""

# The default limit of the csv module, 128 KiB, is less than the size of some articles.
csv.field_size_limit(1 << 30)


def _once(pairs: list[tuple[str, Any]]) -> Row:
    """Returns an object of JSON. Raises ValueError for a key given twice, where Python would keep the last value."""
    row = dict(pairs)
    if len(row) < len(pairs):
        key, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(f"{key!r} is given twice; give it once")
    return row


def _whole(digits: str) -> int:
    """Returns a whole number. Raises ValueError for one of more digits than Python reads."""
    if len(digits) > (most := sys.get_int_max_str_digits()):
        raise ValueError(f"holds a whole number of more than {most:,} digits; write it as text, in quotes")
    return int(digits)


DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_int=_whole)
"""One for all lines: `json.loads` with a hook makes a decoder for each, which takes as long as the line."""


def json_lines(file: str) -> Iterator[Row]:
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
        raise ValueError("holds half a character (a lone surrogate); write the file again as UTF-8")
    return row


def delimited_rows(file: str, delimiter: str) -> Iterator[Row]:
    """Yields the rows of a CSV or TSV file with a header line; an empty cell is null."""
    rows = cells(file, delimiter)
    header = next(rows, (1, []))[1]
    header = [name or f"unnamed {number}" for number, name in enumerate(header, 1)]
    if len(set(header)) < len(header):
        raise InputError(f"{file}: the first line names a column twice: {', '.join(header)}")
    nameless = {name for number, name in enumerate(header, 1) if name == f"unnamed {number}"}
    for line, row in rows:
        if row[0].lstrip("\ufeff") == header[0] and row[1:] == header[1:]:
            raise InputError(f"{file} line {line}: repeats the header; leave it out where files were joined")
        if not any(row) and len(header) > 1:
            continue
        if len(row) != len(header):
            raise InputError(
                f"{file} line {line}: {counted(len(row), 'cell')} under {counted(len(header), 'column')} ({', '.join(header)}); "
                f"quote every cell that holds the delimiter, a quote or a line end{_separator_hint(header)}"
            )
        yield {
            name: cell or None for name, cell in zip(header, row, strict=True) if cell or name not in nameless
        }


def cells(file: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yields the rows of a CSV or TSV file, each with the number of its last line; blank rows are skipped."""
    with open_stream(file) as stream, io.TextIOWrapper(stream, "utf-8", newline="") as text:
        reader = csv.reader(text, delimiter=delimiter, strict=True)
        try:
            for row in reader:
                if row:
                    yield reader.line_num, row
        except csv.Error as error:
            raise InputError(
                f"{file} line {reader.line_num}: {error}; a cell that begins with a quote must end with one, "
                "and quotes within it must be doubled"
            ) from None
        except UnicodeDecodeError:
            deque(lines(file), maxlen=0)  # raises too, and knows the line
            raise


LIST_LIKE = re.compile(
    r"""\[.*\]|\[['"].*|\{.*\}|\(['"].*\)|\w+\([\[{('"].*\)|(ARRAY|array)\[.*\]|(List|Seq|ArraySeq|WrappedArray)\(.*\)""",
    re.DOTALL,
)
"""A cell that looks like a list: of JSON, Python, NumPy, R, Postgres or Spark."""
ADJACENT = re.compile(r"['\"]\s*['\"]")
"""Two strings without a comma, or one that is empty or holds a quote."""
VALUES = (tokenize.STRING, tokenize.NUMBER)
UNPARSED = (ValueError, SyntaxError, MemoryError, RecursionError, tokenize.TokenError)


def parse_list(cell: object, place: str) -> object:
    """Returns the list that a cell holds as JSON, Python or NumPy writes it; any other cell is returned unchanged.

    Raises InputError, which `place` begins, for a cell that only looks like a list, which would be taken for one value.

    >>> parse_list("['a' 'b']", ""), parse_list("a, b", "")
    (['a', 'b'], 'a, b')
    """
    if not isinstance(cell, str) or not LIST_LIKE.fullmatch(text := cell.strip()):
        return cell
    for parse in (json.loads, _literal):
        with contextlib.suppress(*UNPARSED):
            if isinstance(value := parse(text), list):
                return value
    raise InputError(
        f"{place} {cell!r:.80} looks like a list and is neither JSON's nor Python's; write it as JSON, as in "
        f"{json.dumps(['a', 'b'])}"
    )


def _literal(text: str) -> object:
    """Returns the value of Python's or NumPy's text; a tuple or set as a list. Raises ValueError for strings side by side
    between commas, which Python would join."""
    if not ADJACENT.search(text):
        with contextlib.suppress(*UNPARSED):
            value = ast.literal_eval(text)
            return (
                sorted(value)
                if isinstance(value, set)
                else list(value)
                if isinstance(value, tuple)
                else value
            )
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    tokens = [token for token in tokens if token.type in (tokenize.OP, tokenize.NAME, *VALUES)]
    if all(token.type in VALUES for token in tokens[1:-1]):
        return [ast.literal_eval(token.string) for token in tokens[1:-1]]
    if any(one.type == two.type == tokenize.STRING for one, two in pairwise(tokens)):
        raise ValueError(text)
    return ast.literal_eval(text)


def tables_of_rows(rows: Iterable[Row], file: str) -> Iterator[pa.Table]:
    """Yields rows as tables of up to 1000 rows each; nested objects become JSON strings.

    The field of a column with objects has the location of the first one as its metadata, under `OBJECT_AT`.
    """
    for number, batch in enumerate(_batches(rows)):
        first = number * BATCH + 1
        # Not `from_pylist`: it assumes that all rows have the columns of the first row.
        columns = dict.fromkeys(name for row in batch for name in row)
        arrays, fields = [], []
        for name in columns:
            field, array = _field([row.get(name) for row in batch], name, file, first)
            fields.append(field)
            arrays.append(array)
        yield pa.table(arrays, schema=pa.schema(fields))


def with_nested_columns(tables: Iterable[pa.Table], names: Iterable[str], file: str) -> Iterator[pa.Table]:
    """Yields tables with the columns that are named by paths within objects (`add_nested`) after their own."""
    first = 1
    for table in tables:
        for name in names:
            root = name.partition(".")[0]
            if root == name or name in table.column_names or root not in table.column_names:
                continue
            objects = table.column(root).to_pylist(maps_as_pydicts="lossy")
            rows = [add_nested({root: each}, [name]) for each in objects]
            if any(name in row for row in rows):
                table = table.append_column(*_field([row.get(name) for row in rows], name, file, first))
        first += len(table)
        yield table


def _field(values: Sequence[object], name: str, file: str, first: int) -> tuple[pa.Field, pa.Array]:
    row = next((row for row, value in enumerate(values, first) if _is_nested(value)), None)
    metadata = None if row is None else {OBJECT_AT: f"{base_name(file)} row {row}"}
    array = _column(values, name, file, first)
    return pa.field(name, array.type, metadata=metadata), array


def _column(values: Sequence[object], name: str, file: str, first: int) -> pa.Array:
    """Returns a column with the type inferred from its values; numbers among strings become strings, and NaN null.

    `first` is the number of the first value's row in `file`, for messages.
    """
    try:
        flat = [json.dumps(value, ensure_ascii=False) if _is_nested(value) else value for value in values]
        if any(isinstance(value, str) for value in flat):
            flat = [_as_text(value) for value in flat]
        elif any(isinstance(value, bool) for value in flat):
            flat = [None if is_nan(value) else value for value in flat]
            if any(isinstance(value, int | float) and not isinstance(value, bool) for value in flat):
                raise TypeError("true or false beside numbers")  # which Arrow would make 1.0 or 0.0
        return pa.array(flat)
    except OverflowError:
        reason = f"column {name!r} holds a whole number of more than 64 bits; write it as text"
    except UnicodeEncodeError:
        reason = f"column {name!r} holds half a character (a lone surrogate); write the file again as UTF-8"
    except (pa.ArrowException, TypeError, RecursionError):
        _refuse_other_kind(values, name, file, first)
        if any(isinstance(value, int) and abs(value) > EXACT for value in values):
            reason = (
                f"column {name!r} holds a whole number too large beside fractions, which are exact to 53 bits; "
                "write them as text"
            )
        else:
            reason = f"lists of column {name!r} hold values of different types; give them one type"
    raise InputError(f"{base_name(file)} rows {first}-{first + len(values) - 1}: {reason}")


def _refuse_other_kind(values: Sequence[object], name: str, file: str, first: int) -> None:
    """Raises InputError for the first value that is not of the kind of most; numbers, texts and objects go together."""
    kinds = {row: kind for row, value in enumerate(values) if (kind := _kind(value))}
    counts = Counter(kinds.values())
    expected = max(counts, key=lambda kind: (counts[kind], kind == TEXTS), default="")
    for row, kind in kinds.items():
        if kind != expected:
            raise InputError(
                f"{base_name(file)} row {first + row}: column {name!r} holds {values[row]!r:.80}, and other rows "
                f"{expected}; give it one type"
            )


def _kind(value: object) -> str:
    """Returns the kind of a value; empty for what is missing."""
    if value is None or is_nan(value):
        return ""
    if isinstance(value, float) and math.isinf(value):
        return INFINITE
    if isinstance(value, bool):
        return BOOLEANS
    return LISTS if isinstance(value, list) and not _is_nested(value) else TEXTS


def _as_text(value: object) -> object:
    """Returns a number as text, and NaN, which `json.dumps` writes for pandas' missing values, as null.

    Raises TypeError for true and false, and for infinite numbers.
    """
    if isinstance(value, bool) or (isinstance(value, float) and math.isinf(value)):
        raise TypeError(f"{json.dumps(value)} among texts")
    if is_nan(value):
        return None
    return number_text(value) if isinstance(value, int | float) else value


def _is_nested(value: object) -> bool:
    """Whether a value holds objects: their fields differ per row, and Parquet has no struct without fields."""
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(v, dict) for v in value))


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    iterator = iter(rows)
    while batch := list(islice(iterator, BATCH)):
        yield batch


def checked_columns(
    setting: str, columns: Mapping[str, str] | None, known: Collection[str]
) -> Mapping[str, str]:
    """Returns the mapping itself. Raises InputError for a key that is not a known column name."""
    if unknown := set(columns or {}) - set(known):
        raise InputError(
            f"{setting}: no column {sorted(unknown)[0]!r} is known here; there are {', '.join(known)}"
        )
    return columns or {}


def match_columns(
    columns: Mapping[str, str], aliases: Mapping[str, Sequence[str]], present: Collection[str]
) -> dict[str, str]:
    """Returns our column names mapped to the file's, for the columns that are present.

    `aliases` holds further names of each of our columns. The file's name is the one in `columns` or, without one, our
    own or an alias.
    """
    matched: dict[str, str] = {}
    for name, others in aliases.items():
        candidates = (columns[name],) if name in columns else (name, *others)
        if column := next((column for column in candidates if column in present), None):
            matched[name] = column
    return matched


def require(
    required: Iterable[str],
    matched: Mapping[str, str],
    columns: Mapping[str, str],
    present: Collection[str],
    location: str,
    setting: str,
) -> None:
    """Raises InputError for a required column of ours that is not `matched`; `present` are the file's."""
    for name in required:
        if name not in matched:
            raise InputError(
                f"{location}: no column {columns.get(name, name)!r} among {', '.join(present) or 'none'}; "
                f"name the right one, as in {setting}={{{name}: yours}} (or yours.inner, of an object){_separator_hint(present)}"
            )


def _separator_hint(present: Collection[str]) -> str:
    """Returns the end of a line about the one column of a table whose name holds another separator, or nothing."""
    only = next(iter(present)) if len(present) == 1 else ""
    found = next((f"{mark!r}" for mark in "\t;,|" if mark in only), "")
    return f"; or are its columns separated by {found}? A .csv has commas, a .tsv tabs" if found else ""
