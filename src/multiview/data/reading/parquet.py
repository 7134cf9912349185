"""Parquet files: their tables, with types that every later step can filter and show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from multiview.data.reading.files import base_name, open_seekable
from multiview.data.reading.tables import BATCH, Row
from multiview.errors import InputError

BUFFER = 1 << 20
"""Bytes per read of a column of a Parquet file."""


def parquet_tables(file: str) -> Iterator[pa.Table]:
    """Yields the rows of a Parquet file, up to 1000 at a time."""
    # Both options are needed: without them the whole file or a row group is read ahead, and some files have only one
    # row group.
    with (
        open_seekable(file) as stream,
        pq.ParquetFile(stream, pre_buffer=False, buffer_size=BUFFER) as parquet,
    ):
        named = parquet.schema_arrow.names
        if twice := next((name for name, number in Counter(named).items() if number > 1), None):
            raise InputError(f"{base_name(file)}: names a column twice: {twice!r} among {', '.join(named)}")
        for number, batch in enumerate(parquet.iter_batches(batch_size=BATCH)):
            first = number * BATCH + 1
            rows = f"{base_name(file)} rows {first}-{first + len(batch) - 1}"
            try:
                batch.validate(full=True)  # Parquet's readers take any bytes for a text
            except pa.ArrowInvalid as error:
                reason = str(error).splitlines()[0]
                raise InputError(f"{rows}: damaged ({reason}); write the file again") from None
            _check_times(batch, rows)
            yield without_views(pa.Table.from_batches([batch]).replace_schema_metadata(None))


def _check_times(batch: pa.RecordBatch, location: str) -> None:
    """Raises InputError for days and times that Python cannot hold, such as those after 9999 or of an unknown zone: a search
    that finds the passage could not show them."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
            try:
                pc.call_function("min_max", [column]).as_py()
            except (OverflowError, ValueError) as error:
                raise InputError(
                    f"{location}: column {name!r} of type {column.type} holds invalid dates or times ({error}); write it as "
                    "text"
                ) from None


def parquet_rows(file: str) -> Iterator[Row]:
    """Yields the rows of a Parquet file one by one."""
    for table in parquet_tables(file):
        yield from table.to_pylist()


def without_views(table: pa.Table) -> pa.Table:
    """Returns a table with `string` and `binary` in place of `string_view` and `binary_view`, within lists, structs and
    maps too; the same object where it has none."""
    plain = pa.schema([_plain(field) for field in table.schema])
    return table if table.schema.equals(plain) else table.cast(plain)


def _plain(field: pa.Field) -> pa.Field:
    return field.with_type(_plain_type(field.type))


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([_plain(field) for field in kind.fields])
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_field), _plain(kind.item_field), kind.keys_sorted)
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_plain(kind.value_field), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(_plain(kind.value_field))
    return pa.list_(_plain(kind.value_field)) if pa.types.is_list(kind) else kind
