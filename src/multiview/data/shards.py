"""Writes checked passages as shards: their computed columns, the files where they wait, shard sizes, row groups."""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from multiview.data.passages import ROW_GROUP, SCHEMA, content_hash
from multiview.data.reading.articles import ARTICLE_COLUMNS
from multiview.errors import InputError
from multiview.steps.path import shard_file, shard_name

MOST_COUNTED = 2048
"""Most code points of a passage that count towards the size of its shard: few encoders read further."""

AHEAD = 16
"""Number of tables whose sentences other processes split ahead of the one being stored."""

AHEAD_BYTES = 1 << 26
"""Most bytes of these tables."""

Begin = Callable[[Sequence[str]], Callable[[], pa.Array]]
"""Function that begins to split texts, and returns one that waits for their sentence ends (`begin_sentence_ends`)."""

OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd")


def counted_lengths(passages: pa.Table) -> np.ndarray:
    """Returns the length of each passage's title and text in code points, int16, `MOST_COUNTED` at most."""
    length = pc.add(pc.utf8_length(passages.column("title")), pc.utf8_length(passages.column("text")))
    return pc.min_element_wise(length, MOST_COUNTED).to_numpy().astype(np.int16)


def shard_sizes(lengths: np.ndarray, shards: int) -> list[int]:
    """Returns the sizes of `shards` contiguous, non-empty shards that are about equally long, to encode in equal time.

    `lengths` [p] holds the length of each passage; there must be at least as many passages as shards.

    >>> shard_sizes(np.array([30, 10, 10, 10]), 2), shard_sizes(np.array([1, 1, 98]), 3)
    ([1, 3], [1, 1, 1])
    """
    ends, numbers = np.cumsum(lengths, dtype=np.int64), np.arange(1, shards)
    stops = np.searchsorted(ends, -(-ends[-1] * numbers // shards)) + 1
    stops = np.maximum.accumulate(stops - numbers) + numbers  # each at least one after the stop before
    stops = np.minimum(stops, len(lengths) - shards + numbers)
    return np.diff(stops, prepend=0, append=len(lengths)).tolist()


def write_shards(
    tables: Iterable[pa.Table],
    sizes: Sequence[int],
    folder: Path,
    progress: Callable[[int, int, str], None],
    schema: pa.Schema,
) -> int:
    """Writes the passages of `tables`, with all columns, as shards of `sizes` passages; returns their number of sentences.

    Row groups have a fixed number of rows, whatever the tables' sizes, because they decide a Parquet file's bytes.
    """
    rows, written, sentences = Rows(tables), 0, 0
    for shard, size in enumerate(sizes):
        with pq.ParquetWriter(folder / shard_file(shard_name(shard)), schema, compression="zstd") as writer:
            for first in range(0, size, ROW_GROUP):
                table = rows.take(min(ROW_GROUP, size - first))
                writer.write_table(table)
                sentences += pc.sum(pc.list_value_length(table.column("sentence_ends"))).as_py()
                written += table.num_rows
                progress(written, sum(sizes), "passages")
    return sentences


class Rows:
    """Rows of consecutive tables, taken in portions of any size."""

    def __init__(self, tables: Iterable[pa.Table]) -> None:
        self._tables = iter(tables)
        self._held: list[pa.Table] = []

    def take(self, count: int) -> pa.Table:
        """Returns the next `count` rows. Raises InputError when there are fewer."""
        while sum(table.num_rows for table in self._held) < count:
            if (table := next(self._tables, None)) is None:
                raise InputError(f"{count} rows were asked for, and fewer are left")
            self._held.append(table)
        rows = pa.concat_tables(self._held)
        self._held = [rows.slice(count)]
        return rows.slice(0, count).combine_chunks()


class PassageCache:
    """Tables of passages with sentence ends and hashes, each in a file of `folder`: the user's files are read once."""

    def __init__(self, folder: Path, begin: Begin, named: set[str] | None) -> None:
        """`named` are the ids of passages and articles that may be wanted; None for all."""
        self._folder, self._begin, self._named = folder, begin, named
        self._begun: deque[tuple[pa.Table, list[str], Callable[[], pa.Array]]] = deque()
        """Tables whose sentences are being split, with their content hashes."""
        self._files: list[Path] = []

    def add(self, table: pa.Table) -> None:
        """Starts splitting the sentences of a table's passages; stores the earliest tables if more than `AHEAD`, or
        `AHEAD_BYTES`, wait."""
        if self._named is not None:
            names = [name for name in ("id", ARTICLE_COLUMNS[0]) if name in table.column_names]
            rows = zip(*(table.column(name).to_pylist() for name in names), strict=True)
            table = table.filter(pa.array([not self._named.isdisjoint(row) for row in rows], pa.bool_()))
        if table.num_rows:
            titles, texts = table.column("title").to_pylist(), table.column("text").to_pylist()
            hashes = list(map(content_hash, titles, texts))
            self._begun.append((table, hashes, self._begin(texts)))
        while len(self._begun) > AHEAD or sum(each.nbytes for each, *_ in self._begun) > AHEAD_BYTES:
            self._store()

    def tables(self, wanted: Collection[str], schema: pa.Schema) -> Iterator[pa.Table]:
        """Yields the wanted passages in order, with the columns of `schema`; each table is deleted from the disk."""
        while self._begun:
            self._store()
        for file in self._files:
            with pa.OSFile(str(file)) as source, pa.ipc.open_stream(source) as stream:
                table = stream.read_all()
            file.unlink()
            ids = table.column("id").to_pylist()
            table = table.filter(pa.array([id_ in wanted for id_ in ids], pa.bool_()))
            if table.num_rows:
                yield pa.table([_as_type(table, field) for field in schema], schema=schema)

    def _store(self) -> None:
        """Stores the earliest table in a file of its own, since a column's type may differ from table to table."""
        table, hashes, sentence_ends = self._begun.popleft()
        table = table.append_column(SCHEMA.field("sentence_ends"), sentence_ends())
        table = table.append_column(SCHEMA.field("content_hash"), pa.array(hashes, pa.string()))
        self._files.append(self._folder / f"{len(self._files)}.arrow")
        with pa.ipc.new_stream(str(self._files[-1]), table.schema, options=OPTIONS) as writer:
            writer.write_table(table)


def _as_type(table: pa.Table, field: pa.Field) -> pa.ChunkedArray | pa.Array:
    """Returns a column in the type that it has over all tables; nulls if the table lacks it."""
    if field.name not in table.column_names:
        return pa.nulls(table.num_rows, field.type)
    return table.column(field.name).cast(field.type)
