"""Rows under named columns: Parquet, JSONL, and CSV or TSV with a header."""

from __future__ import annotations

import ast
import csv
import io
import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from multiview.data.reading.files import base_name, lines, opened, seekable
from multiview.errors import InputError

BATCH = 1000
"""Rows read at a time."""
BUFFER = 1 << 20
"""Bytes read at a time of a column of a Parquet file."""

# The module's default, 128 KiB, is less than some articles have.
csv.field_size_limit(1 << 30)


def json_lines(file: str) -> Iterator[dict[str, Any]]:
    """The objects of a JSONL file, blank lines passed over."""
    for number, line in lines(file):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise InputError(
                f"{file} line {number}: not JSON ({error}); one object a line is expected"
            ) from None
        if not isinstance(row, dict):
            raise InputError(f"{file} line {number}: not a JSON object; one object a line is expected")
        yield row


def delimited_rows(file: str, delimiter: str) -> Iterator[dict[str, Any]]:
    """The rows of a CSV or TSV file whose first line names the columns; an empty cell is null."""
    rows = cells(file, delimiter)
    header = next(rows, (1, []))[1]
    if len(set(header)) < len(header):
        raise InputError(f"{file}: the first line names a column twice: {', '.join(header)}")
    for line, row in rows:
        if len(row) != len(header):
            raise InputError(
                f"{file} line {line}: {len(row)} cells under {len(header)} columns ({', '.join(header)}); "
                "quote a cell that holds the delimiter, a quote or a line end"
            )
        yield dict(zip(header, (cell or None for cell in row), strict=True))


def cells(file: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV or TSV file, each with the number of its last line; blank ones are passed over."""
    with opened(file) as stream, io.TextIOWrapper(stream, "utf-8", newline="") as text:
        reader = csv.reader(text, delimiter=delimiter, strict=True)
        try:
            for row in reader:
                if row:
                    yield reader.line_num, row
        except csv.Error as error:
            raise InputError(
                f"{file} line {reader.line_num}: {error}; a cell that begins with a quote ends with one, "
                "and quotes within it are doubled"
            ) from None


def listed(cell: Any) -> Any:
    """A cell that holds a list as JSON or Python writes one, as that list; anything else as it is."""
    if not isinstance(cell, str) or not (cell.startswith("[") and cell.endswith("]")):
        return cell
    for parse in (json.loads, ast.literal_eval):
        try:
            value = parse(cell)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(value, list):
            return value
    return cell


def tables_of_rows(rows: Iterable[dict[str, Any]], file: str) -> Iterator[pa.Table]:
    """Rows as tables of up to 1000 rows each; objects within them as JSON texts."""
    for number, batch in enumerate(_batches(rows)):
        first = number * BATCH + 1
        # Not `from_pylist`: it takes the columns of the first row for those of all.
        columns = dict.fromkeys(name for row in batch for name in row)
        place = f"{base_name(file)} rows {first}-{first + len(batch) - 1}"
        yield pa.table({name: _column([row.get(name) for row in batch], name, place) for name in columns})


def _column(values: list[Any], name: str, place: str) -> pa.Array:
    """A column of a type of its own; numbers among texts are texts."""
    flat = [_flat(value) for value in values]
    if any(isinstance(value, str) for value in flat):
        flat = [str(value) if isinstance(value, int | float) else value for value in flat]
    try:
        return pa.array(flat)
    except (pa.ArrowException, OverflowError) as error:
        raise InputError(
            f"{place}: values of column {name!r} differ in type ({error}); give them one"
        ) from None
    except UnicodeEncodeError:
        raise InputError(
            f"{place}: column {name!r} holds half a character (a lone surrogate); write the file as UTF-8 anew"
        ) from None


def _flat(value: Any) -> Any:
    """Objects have other fields in every row, and Parquet knows none without a field."""
    nested = isinstance(value, dict) or (isinstance(value, list) and any(isinstance(v, dict) for v in value))
    return json.dumps(value, ensure_ascii=False) if nested else value


def _batches(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    iterator = iter(rows)
    while batch := list(islice(iterator, BATCH)):
        yield batch


def parquet_tables(file: str) -> Iterator[pa.Table]:
    """The rows of a Parquet file, up to 1000 at a time."""
    # Piece by piece, which takes both: else a whole file is read ahead, or a row group, and some have but one.
    with (
        seekable(file) as stream,
        pq.ParquetFile(stream, pre_buffer=False, buffer_size=BUFFER) as parquet,
    ):
        for batch in parquet.iter_batches(batch_size=BATCH):
            yield pa.Table.from_batches([batch]).replace_schema_metadata(None)


def parquet_rows(file: str) -> Iterator[dict[str, Any]]:
    """The same, row by row."""
    for table in parquet_tables(file):
        yield from table.to_pylist()
