"""Passages as the `split` step leaves them: Parquet shards, and reading them back."""

# pyarrow.compute fills itself with functions when imported, which pyright cannot see.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from multiview.errors import InputError

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("title", pa.string()),
        ("text", pa.string()),
        ("sentence_ends", pa.list_(pa.int32())),
        ("content_hash", pa.string()),
    ]
)
"""The columns of every shard; the user's own columns follow them."""

ROW_GROUP = 1000
"""Passages of a row group: what reading a few passages has to read at least."""

COLUMNS = ["id", "title", "text", "sentence_ends"]


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage. `sentence_ends` are end offsets in code points, white space up to the next
    sentence included, so that the last one is len(text)."""

    id: str
    title: str
    text: str
    sentence_ends: tuple[int, ...]


def content_hash(title: str, text: str) -> str:
    """32 hex digits that change whenever the title or the text does."""
    return hashlib.sha256(f"{title}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def shard_name(number: int) -> str:
    """The file name of a shard, counted from 0."""
    return f"shard-{number:02d}.parquet"


def shard_files(folder: Path) -> list[Path]:
    """The shards in a folder, in order; other files are not looked at.

    Raises InputError when there is none.
    """
    files = sorted(Path(folder).glob("shard-*.parquet"))
    if not files:
        raise InputError(f"{folder}: no shards of passages (shard-00.parquet …) here; run the split step")
    return files


def count_passages(folder: Path) -> int:
    """How many passages the shards of a folder hold, by their footers alone."""
    return sum(pq.read_metadata(file).num_rows for file in shard_files(folder))


def read_tables(
    folder: Path, columns: Sequence[str] | None = None, batch: int = ROW_GROUP
) -> Iterator[pa.RecordBatch]:
    """The rows of a folder's shards in order, `batch` at a time; all columns, or those named."""
    for file in shard_files(folder):
        with pq.ParquetFile(file, pre_buffer=False) as parquet:  # else the whole file is read ahead
            yield from parquet.iter_batches(batch_size=batch, columns=list(columns) if columns else None)


def read_passages(folder: Path) -> Iterator[Passage]:
    """The passages of a folder's shards in order, holding one batch of them in memory.

    >>> first = next(read_passages(passages))
    >>> first.id, first.title, first.sentence_ends
    ('p0', 'Tower', (26, 34))
    """
    for batch in read_tables(folder, COLUMNS):
        yield from passages_of(batch)


def passages_of(table: pa.RecordBatch | pa.Table) -> Iterator[Passage]:
    """The rows of a table that has the columns of a shard."""
    id_, title, text, ends = (table.column(name).to_pylist() for name in COLUMNS)
    for row in zip(id_, title, text, ends, strict=True):
        yield Passage(row[0], row[1], row[2], tuple(row[3]))


class PassageRows:
    """Passages by number, from 0 in the order of some shards, read from the shards when asked for.

    Nothing but the sizes of the row groups stays in memory. Each call reads the row groups that hold what
    was asked for, one at a time: ask for many at once. Any number of threads may read.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._groups: list[tuple[Path, int]] = []  # of each row group: its file, its number there
        sizes: list[int] = []
        for file in files:
            metadata = pq.read_metadata(file)
            self._groups += [(file, group) for group in range(metadata.num_row_groups)]
            sizes += [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        self._firsts = np.cumsum([0, *sizes])  # of each row group: its first row over all shards

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def tables(
        self, numbers: np.ndarray, columns: Sequence[str] | None = None
    ) -> Iterator[tuple[np.ndarray, pa.Table]]:
        """The passages of these numbers (rising): of each row group its numbers and their rows."""
        bounds = np.searchsorted(numbers, self._firsts)
        for which in np.flatnonzero(np.diff(bounds)):
            file, group = self._groups[which]
            within = numbers[bounds[which] : bounds[which + 1]]
            with pq.ParquetFile(file) as parquet:
                table = parquet.read_row_group(group, columns=list(columns) if columns else None)
            yield within, table.take(pa.array(within - self._firsts[which]))

    def rows(self, numbers: Iterable[int]) -> dict[int, dict[str, Any]]:
        """Whole rows by number, the user's own columns included."""
        wanted = np.unique(np.fromiter(numbers, np.int64))
        return {
            number: row
            for found, table in self.tables(wanted)
            for number, row in zip(found.tolist(), table.to_pylist(), strict=True)
        }


class PassageLookup:
    """Passages by id, read from the shards when asked for.

    Only the ids stay in memory, as Arrow strings (their bytes and 4 more each); each call scans them
    once. An id that no shard holds is an InputError naming it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        files = shard_files(self.folder)
        self._rows = PassageRows(files)
        ids = [chunk for file in files for chunk in pq.read_table(file, columns=["id"]).column("id").chunks]
        self._ids = pa.chunked_array(ids, pa.string())

    def __len__(self) -> int:
        return len(self._ids)

    def passages(self, ids: Iterable[str]) -> dict[str, Passage]:
        """The passages of these ids."""
        return {passage.id: passage for passage in self.stream(ids)}

    def stream(self, ids: Iterable[str]) -> Iterator[Passage]:
        """The same one after another in the shards' order, holding those of one row group."""
        for table in self._tables(ids, COLUMNS):
            yield from passages_of(table)

    def texts(self, ids: Iterable[str]) -> dict[str, tuple[str, str]]:
        """(title, text) of each of these ids."""
        rows = self.rows(ids, ["title", "text"])
        return {id_: (row["title"], row["text"]) for id_, row in rows.items()}

    def rows(self, ids: Iterable[str], columns: Sequence[str] | None = None) -> dict[str, dict[str, Any]]:
        """Whole rows by id, the user's own columns included, or `id` and these columns alone."""
        wanted = None if columns is None else list(dict.fromkeys(["id", *columns]))
        return {row["id"]: row for table in self._tables(ids, wanted) for row in table.to_pylist()}

    def _tables(self, ids: Iterable[str], columns: list[str] | None) -> Iterator[pa.Table]:
        """The rows of these ids, in the shards' order, one table a row group."""
        wanted = pa.array(dict.fromkeys(ids), pa.string())
        rows = np.flatnonzero(pc.is_in(self._ids, value_set=wanted).to_numpy())
        if len(rows) < len(wanted):
            missing = wanted.filter(pc.invert(pc.is_in(wanted, value_set=self._ids)))
            raise InputError(
                f"{self.folder}: {len(missing)} of {len(wanted)} passages asked for are not in this corpus "
                f"(first: {missing[0].as_py()!r}); it was cut from other files than what names them"
            )
        for _, table in self._rows.tables(rows, columns):
            yield table
