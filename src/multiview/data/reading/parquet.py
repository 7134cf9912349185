"""Parquet files: their tables, with types that every later step can filter and show."""

import contextlib
import math
from collections import Counter
from collections.abc import Collection, Iterator
from typing import IO, Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from multiview.data.reading.files import base_name, open_seekable
from multiview.data.reading.tables import BATCH, Row
from multiview.data.reading.values import inexact, number_texts
from multiview.errors import InputError

BUFFER = 1 << 20
"""Bytes per read of a column of a Parquet file."""


def parquet_tables(file: str) -> Iterator[pa.Table]:
    """Yields the rows of a Parquet file, up to 1000 at a time."""
    # Without a buffer a whole row group is read ahead, with `pre_buffer` all of them, and some files have only one.
    # Spark's INT96 times go up to the year 9999, which nanoseconds cannot hold.
    options = {"pre_buffer": False, "buffer_size": BUFFER, "coerce_int96_timestamp_unit": "us"}
    with open_seekable(file) as stream, pq.ParquetFile(stream, **options) as parquet:
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
            columns = [
                plain_column(column, f"{rows}: column {name!r}")
                for name, column in zip(named, batch.columns, strict=True)
            ]
            yield pa.table(columns, names=named)
        # Only now: the metadata of a damaged column that was not read yet crash the process in pyarrow.
        _refuse_joined(stream, parquet.metadata, file)


def _refuse_joined(stream: IO[bytes], metadata: pq.FileMetaData, file: str) -> None:
    """Raises InputError if several Parquet files were concatenated, of which Arrow would read only one."""
    groups = [group for group in map(metadata.row_group, range(metadata.num_row_groups)) if group.num_rows]
    chunks = [group.column(number) for group in groups[-1:] for number in range(metadata.num_columns)]
    ends = [(c.dictionary_page_offset or c.data_page_offset) + c.total_compressed_size for c in chunks]
    begin, end = max(ends, default=4), stream.seek(0, 2) - metadata.serialized_size - 8
    stream.seek(begin)
    if b"PAR1PAR1" in stream.read(max(0, end - begin)):
        raise InputError(f"{base_name(file)}: several Parquet files one after another; name them one by one")


def parquet_names(file: str) -> list[str]:
    """Returns the names of the columns of a Parquet file."""
    with open_seekable(file) as stream:
        return pq.read_schema(stream).names


def refuse_rounded(file: str, ids: Collection[str]) -> None:
    """Raises InputError where a column of ids, or of lists of them, holds numbers that its type may have rounded."""
    with open_seekable(file) as stream:
        kinds = {each.name: getattr(each.type, "value_type", each.type) for each in pq.read_schema(stream)}
    exact = {pa.float16(): 11, pa.float32(): 24}
    rounded = {name: exact[kind] for name, kind in kinds.items() if name in ids and kind in exact}
    for table in parquet_tables(file) if rounded else ():
        for name, bits in rounded.items():
            for value in table.column(name).to_pylist():
                for number in value if isinstance(value, list) else [value]:
                    if number is not None and 1 << bits <= abs(number) < math.inf:
                        raise inexact(number, f"{base_name(file)}: column {name!r}", bits)


def parquet_rows(file: str) -> Iterator[Row]:
    """Yields the rows of a Parquet file one by one, decimals as text: some databases write whole numbers so."""
    for table in parquet_tables(file):
        columns = [number_texts(each) if pa.types.is_decimal(each.type) else each for each in table.columns]
        yield from pa.table(columns, names=table.column_names).to_pylist()


def plain_column(column: pa.Array, location: str) -> pa.Array:
    """Returns a column whose values every later step can filter, show and export.

    Views and categories become what they stand for, UUIDs their 36 characters, other extension types (JSON) what is
    stored, and bytes become text if all of them are UTF-8; the same goes for values within lists, structs and maps.
    Raises InputError, which begins with `location`, for dates, times and durations that Python cannot hold and show,
    such as those after 9999, in an unknown time zone, or times of day with nanoseconds.
    """
    if isinstance(column, pa.ExtensionArray) and column.type != pa.uuid():
        column = column.storage
    try:
        plain = _plain(column)
        if plain.type == pa.time64("ns"):
            plain.cast(pa.time64("us"))  # the finest that Python holds
        elif pa.time64("ns") in _types(plain.type):
            raise ValueError("times of nanoseconds within lists or structs")
        if pa.types.is_timestamp(plain.type) or pa.types.is_date(plain.type):
            pc.call_function("min_max", [plain]).as_py()
        elif any(map(pa.types.is_temporal, _types(plain.type))):
            plain.to_pylist()
    except (OverflowError, ValueError) as error:
        fault = f"of type {column.type} holds invalid dates or times ({error})"
        raise InputError(f"{location} {fault}; write it as text") from None
    return plain


def _plain(column: pa.Array) -> pa.Array:
    # Arrow cannot cast lists of extension types, and loses the end of list views.
    uncast = (pa.BaseExtensionType, pa.ListViewType, pa.LargeListViewType)
    by_value = any(isinstance(kind, uncast) for kind in _types(column.type))
    values = _plain_values(column.to_pylist()) if by_value else None
    for bytes_as in (pa.string(), pa.binary()):
        kind = _plain_type(column.type, bytes_as)
        if kind.equals(column.type):
            break
        with contextlib.suppress(pa.ArrowInvalid):  # bytes that are no text
            return column.cast(kind) if values is None else pa.array(values, kind)
    return column


def _types(kind: pa.DataType) -> Iterator[pa.DataType]:
    """Yields a type and the types of the values within it."""
    yield kind
    for number in range(kind.num_fields):
        yield from _types(kind.field(number).type)


def _plain_type(kind: pa.DataType, bytes_as: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type, bytes_as)
    if kind == pa.uuid() or pa.types.is_string_view(kind):
        return pa.string()
    if isinstance(kind, pa.BaseExtensionType):
        return _plain_type(kind.storage_type, bytes_as)
    if pa.types.is_binary_view(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.binary() if kind == pa.binary(12) else bytes_as  # 12 bytes are an interval
    if pa.types.is_large_binary(kind):
        return pa.large_string() if bytes_as == pa.string() else kind
    if not kind.num_fields:
        return kind
    fields = [kind.field(number) for number in range(kind.num_fields)]
    fields = [field.with_type(_plain_type(field.type, bytes_as)).with_nullable(True) for field in fields]
    if pa.types.is_struct(kind):
        return pa.struct(fields)
    if pa.types.is_map(kind):
        return pa.map_(*(field.type for field in fields[0].type), kind.keys_sorted)
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(fields[0], kind.list_size)
    return pa.large_list(fields[0]) if pa.types.is_large_list(kind) else pa.list_(fields[0])


def _plain_values(value: Any) -> Any:
    """Returns values within lists and structs, with UUIDs as texts."""
    if isinstance(value, dict):
        return {name: _plain_values(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_plain_values, value))
    return str(value) if isinstance(value, UUID) else value
