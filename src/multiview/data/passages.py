"""Passages as the `split` step leaves them: Parquet shards, and reading them back."""

# pyarrow.compute fills itself with functions when imported, which pyright cannot see.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
        with pq.ParquetFile(file) as parquet:
            yield from parquet.iter_batches(batch_size=batch, columns=list(columns) if columns else None)


def read_passages(folder: Path) -> Iterator[Passage]:
    """The passages of a folder's shards in order, holding one batch of them in memory."""
    for batch in read_tables(folder, COLUMNS):
        yield from passages_of(batch)


def passages_of(table: pa.RecordBatch | pa.Table) -> Iterator[Passage]:
    """The rows of a table that has the columns of a shard."""
    id_, title, text, ends = (table.column(name).to_pylist() for name in COLUMNS)
    for row in zip(id_, title, text, ends, strict=True):
        yield Passage(row[0], row[1], row[2], tuple(row[3]))


class PassageLookup:
    """Passages by id, read from the shards when asked for.

    Only the ids stay in memory (some 20 bytes a passage); each call scans them once and then reads
    the row groups that hold what was asked for, one at a time. So ask for many at once.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self._groups: list[tuple[Path, int]] = []
        ids: list[pa.ChunkedArray] = []
        for file in shard_files(self.folder):
            with pq.ParquetFile(file) as parquet:
                for group in range(parquet.num_row_groups):
                    self._groups.append((file, group))
                    ids.append(parquet.read_row_group(group, columns=["id"]).column("id"))
        self._ids = ids

    def __len__(self) -> int:
        return sum(len(ids) for ids in self._ids)

    def passages(self, ids: Iterable[str]) -> dict[str, Passage]:
        """The passages of these ids. Raises InputError naming an id that no shard holds."""
        return {passage.id: passage for table in self._tables(ids, COLUMNS) for passage in passages_of(table)}

    def texts(self, ids: Iterable[str]) -> dict[str, tuple[str, str]]:
        """(title, text) of each of these ids. Raises InputError as `passages` does."""
        return {
            row["id"]: (row["title"], row["text"]) for row in self.rows(ids, ["id", "title", "text"]).values()
        }

    def rows(self, ids: Iterable[str], columns: Sequence[str] | None = None) -> dict[str, dict[str, Any]]:
        """Whole rows by id, the user's own columns included, or only `columns` (with `id`)."""
        return {row["id"]: row for table in self._tables(ids, columns) for row in table.to_pylist()}

    def _tables(self, ids: Iterable[str], columns: Sequence[str] | None) -> Iterator[pa.Table]:
        wanted = pa.array(dict.fromkeys(ids), pa.string())
        missing = len(wanted)
        for (file, group), there in zip(self._groups, self._ids, strict=True):
            if not missing:
                return
            mask = pc.is_in(there, value_set=wanted)
            if not (found := pc.sum(mask).as_py()):
                continue
            missing -= found
            with pq.ParquetFile(file) as parquet:
                yield parquet.read_row_group(group, columns=list(columns) if columns else None).filter(mask)
        if missing:
            known = pa.chunked_array([chunk for ids_ in self._ids for chunk in ids_.chunks], pa.string())
            absent = wanted.filter(pc.invert(pc.is_in(wanted, value_set=known)))
            raise InputError(
                f"{self.folder}: no passage {absent[0].as_py()!r} ({missing} of the ids asked for are missing)"
            )
