"""Writing the shards of passages: their sizes, their row groups, the columns computed here."""

# pyarrow.compute fills itself with functions when imported, which pyright cannot see.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from multiview.data.passages import ROW_GROUP, SCHEMA, content_hash, shard_name
from multiview.data.sentences import iterate_sentence_ends


def shard_sizes(count: int, shards: int) -> list[int]:
    """Sizes of `shards` contiguous shards that differ by one passage at most, larger ones first."""
    size, more = divmod(count, shards)
    return [size + (number < more) for number in range(shards)]


class Shard:
    """One shard's file while it is written, a row group at a time."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.written = 0  # passages of this and all earlier shards
        self.last = False
        self._writer: pq.ParquetWriter | None = None

    def write(self, folder: Path, table: pa.Table) -> None:
        if self._writer is None:
            file = Path(folder) / shard_name(self.number)
            self._writer = pq.ParquetWriter(file, table.schema, compression="zstd")
        self._writer.write_table(table, row_group_size=ROW_GROUP)
        if self.last:
            self._writer.close()


def shard_rows(tables: Iterable[pa.Table], count: int, shards: int) -> Iterator[tuple[Shard, pa.Table]]:
    """Row groups in order, each with its shard: what the bytes of a file depend on is how its rows
    are grouped, so groups are cut by number alone, whatever the tables' sizes."""
    tables, written = iter(tables), 0
    held: list[pa.Table] = []
    for number, size in enumerate(shard_sizes(count, shards)):
        shard = Shard(number)
        while size:
            take = min(size, ROW_GROUP)
            while sum(table.num_rows for table in held) < take:
                held.append(next(tables))
            rows = pa.concat_tables(held)
            held = [rows.slice(take)]
            size -= take
            written += take
            shard.written, shard.last = written, size == 0
            yield shard, rows.slice(0, take).combine_chunks()


def finished(table: pa.Table, language: str) -> tuple[pa.Table, int]:
    """The table with sentence ends and content hashes, and how many sentences it has."""
    titles, texts = table.column("title").to_pylist(), table.column("text").to_pylist()
    ends = pa.array(map(list, iterate_sentence_ends(texts, language)), pa.list_(pa.int32()))
    hashes = pa.array(map(content_hash, titles, texts), pa.string())
    table = table.add_column(3, SCHEMA.field("sentence_ends"), ends)
    return table.add_column(4, SCHEMA.field("content_hash"), hashes), pc.sum(
        pc.list_value_length(ends)
    ).as_py()
