"""Writing the shards of passages: their sizes, their row groups, the columns computed here."""

# pyarrow.compute fills itself with functions when imported, which pyright cannot see.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from multiview.data.passages import ROW_GROUP, SCHEMA, content_hash, shard_name
from multiview.data.sentences import SentencesOf
from multiview.errors import InputError


def shard_sizes(count: int, shards: int) -> list[int]:
    """Sizes of `shards` contiguous shards that differ by one passage at most, larger ones first."""
    size, more = divmod(count, shards)
    return [size + (number < more) for number in range(shards)]


def write_shards(
    tables: Iterable[pa.Table],
    count: int,
    shards: int,
    folder: Path,
    sentences_of: SentencesOf,
    progress: Callable[[int, int, str], None],
) -> int:
    """Write the `count` passages of `tables` as shards, and say how many sentences they have.

    `tables` have `id, title, text` and the user's own columns. The bytes of a Parquet file depend
    on how its rows are grouped: groups are cut by number alone, whatever the tables' sizes.
    """
    rows, written, sentences = Rows(tables), 0, 0
    for number, size in enumerate(shard_sizes(count, shards)):
        with ExitStack() as stack:
            writer = None
            for first in range(0, size, ROW_GROUP):
                group = rows.take(min(ROW_GROUP, size - first))
                table, found = finished(group, sentences_of)
                if writer is None:
                    file = Path(folder) / shard_name(number)
                    writer = stack.enter_context(pq.ParquetWriter(file, table.schema, compression="zstd"))
                writer.write_table(table)
                sentences += found
                written += group.num_rows
                progress(written, count, "passages")
    return sentences


class Rows:
    """Tables one after another, handed out in other portions."""

    def __init__(self, tables: Iterable[pa.Table]) -> None:
        self._tables = iter(tables)
        self._held: list[pa.Table] = []

    def take(self, number: int) -> pa.Table:
        """The next rows, exactly this many."""
        while sum(table.num_rows for table in self._held) < number:
            if (table := next(self._tables, None)) is None:
                raise InputError("corpus.source: the files changed while they were read; run split again")
            self._held.append(table)
        rows = pa.concat_tables(self._held)
        self._held = [rows.slice(number)]
        return rows.slice(0, number).combine_chunks()


def finished(table: pa.Table, sentences_of: SentencesOf) -> tuple[pa.Table, int]:
    """The table with sentence ends and content hashes, and how many sentences it has."""
    titles, texts = table.column("title").to_pylist(), table.column("text").to_pylist()
    hashes = list(map(content_hash, titles, texts))
    ends = sentences_of(texts, hashes)
    table = table.add_column(3, SCHEMA.field("sentence_ends"), ends)
    table = table.add_column(4, SCHEMA.field("content_hash"), pa.array(hashes, pa.string()))
    return table, pc.sum(pc.list_value_length(ends)).as_py()
