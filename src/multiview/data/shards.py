"""Writing of the shards of passages: shard sizes, row groups, computed columns."""

# pyarrow.compute fills itself with functions when imported, which pyright cannot see.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from multiview.data.passages import ROW_GROUP, SCHEMA, content_hash
from multiview.data.sentences import SentencesOf
from multiview.errors import InputError
from multiview.steps.path import shard_file, shard_name

AHEAD = 16
"""Row groups whose sentences are split ahead of the one that is written, by other processes; and tables of passages
with which these begin while questions are read."""

MOST_COUNTED = 2048
"""The most code points of a passage that count for its shard: what follows them few encoders read."""

Finish = Callable[[], tuple[pa.Table, int]]
"""Function that waits for a finished table of passages and its number of sentences."""


def counted_lengths(passages: pa.Table) -> np.ndarray:
    """Returns the length of each passage's title and text in code points, int16, `MOST_COUNTED` at most."""
    length = pc.add(pc.utf8_length(passages.column("title")), pc.utf8_length(passages.column("text")))
    return pc.min_element_wise(length, MOST_COUNTED).to_numpy().astype(np.int16)


def shard_sizes(lengths: np.ndarray, shards: int) -> list[int]:
    """Returns the number of passages of each of `shards` contiguous shards, which are about as long as each other.

    Encoding takes time by length. `lengths` [p] are those of the passages, of which there are at least as many as shards.
    Each shard ends with the passage that reaches its share of their sum, or so that no shard is empty.

    >>> shard_sizes(np.array([30, 10, 10, 10]), 2), shard_sizes(np.array([1, 1, 98]), 3)
    ([1, 3], [1, 1, 1])
    """
    ends, numbers = np.cumsum(lengths, dtype=np.int64), np.arange(1, shards)
    stops = np.searchsorted(ends, -(-ends[-1] * numbers // shards)) + 1
    stops = np.maximum.accumulate(stops - numbers) + numbers  # each at least one after the stop before
    stops = np.minimum(stops, len(lengths) - shards + numbers)
    return np.diff(stops, prepend=0, append=len(lengths)).tolist()


def begin_groups(
    tables: Iterable[pa.Table], sizes: Sequence[int], sentences_of: SentencesOf
) -> Iterator[Finish]:
    """Begins to split the sentences of `AHEAD` row groups, and of one more for each that is taken; yields all in order.

    `tables` have `id, title, text` and the user's further columns of all passages; `sizes` are the numbers of passages per
    shard. The bytes of a Parquet file depend on its row groups. Groups therefore have a fixed number of rows, independent
    of the sizes of the tables.
    """
    groups = _groups(Rows(tables), sizes, sentences_of)
    return _in_order(deque(islice(groups, AHEAD)), groups)


def _groups(rows: Rows, sizes: Iterable[int], sentences_of: SentencesOf) -> Iterator[Finish]:
    """Yields the row groups of all shards, each with its sentences begun."""
    for size in sizes:
        for first in range(0, size, ROW_GROUP):
            yield with_computed_columns(rows.take(min(ROW_GROUP, size - first)), sentences_of)


def _in_order(begun: deque[Finish], groups: Iterator[Finish]) -> Iterator[Finish]:
    while begun:
        begun.extend(islice(groups, 1))
        yield begun.popleft()


def write_shards(
    groups: Iterator[Finish], sizes: Sequence[int], folder: Path, progress: Callable[[int, int, str], None]
) -> int:
    """Writes the passages of `groups` (see `begin_groups`) as shards of `sizes` passages; returns their number of sentences."""
    written, sentences = 0, 0
    for shard, size in enumerate(sizes):
        with ExitStack() as stack:
            writer = None
            for _ in range(0, size, ROW_GROUP):
                table, group_sentences = next(groups)()
                if writer is None:
                    file = Path(folder) / shard_file(shard_name(shard))
                    writer = stack.enter_context(pq.ParquetWriter(file, table.schema, compression="zstd"))
                writer.write_table(table)
                sentences += group_sentences
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
                raise InputError("corpus.source: the files changed while they were read; run split again")
            self._held.append(table)
        rows = pa.concat_tables(self._held)
        self._held = [rows.slice(count)]
        return rows.slice(0, count).combine_chunks()


def with_computed_columns(table: pa.Table, sentences_of: SentencesOf) -> Finish:
    """Begins to split a table's sentences; returns the table with sentence ends and content hashes, when they are there."""
    titles, texts = table.column("title").to_pylist(), table.column("text").to_pylist()
    hashes = list(map(content_hash, titles, texts))
    begun = sentences_of(texts, hashes)

    def finish() -> tuple[pa.Table, int]:
        ends = begun()
        finished = table.add_column(3, SCHEMA.field("sentence_ends"), ends)
        finished = finished.add_column(4, SCHEMA.field("content_hash"), pa.array(hashes, pa.string()))
        return finished, pc.sum(pc.list_value_length(ends)).as_py()

    return finish
