"""Passages as the `split` step writes them: the schema of Parquet shards, and their readers."""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from multiview.data.arrays import int64_array
from multiview.data.reading.tables import Row
from multiview.errors import InputError, counted
from multiview.steps.path import shard_file

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("title", pa.string()),
        ("text", pa.string()),
        ("sentence_ends", pa.list_(pa.int32())),
        ("content_hash", pa.string()),
    ]
)
"""Columns of every shard; the user's further columns follow."""

ROW_GROUP = 1000
"""Passages per row group, which is read whole even for a single passage."""

COLUMNS = ["id", "title", "text", "sentence_ends"]


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage.

    `sentence_ends` are offsets in code points, each after the sentence's trailing white space; the last is len(text).
    """

    id: str
    title: str
    text: str
    sentence_ends: tuple[int, ...]


def content_hash(title: str, text: str) -> str:
    """Returns a hash of title and text, 32 hex digits."""
    return hashlib.sha256(f"{title}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def shard_files(folder: Path) -> list[Path]:
    """Returns the shards in a folder, in order; other files are ignored. Raises InputError when there are none."""
    files = sorted(folder.glob(shard_file("shard-*")))
    if not files:
        raise InputError(f"{folder}: no shards of passages (shard-00.parquet …) here; run the split step")
    return files


def count_passages(folder: Path) -> int:
    """Returns the number of passages in the shards of a folder; only the footers are read."""
    return sum(pq.read_metadata(file).num_rows for file in shard_files(folder))


def read_tables(
    folder: Path | Sequence[Path], columns: Sequence[str] | None = None, batch: int = ROW_GROUP
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of some shards, or of a folder's, in order, `batch` at a time, with all or the given columns."""
    for file in shard_files(folder) if isinstance(folder, Path) else folder:
        with pq.ParquetFile(file, pre_buffer=False) as parquet:  # otherwise the whole file is read ahead
            yield from parquet.iter_batches(batch_size=batch, columns=list(columns) if columns else None)


def read_passages(folder: Path) -> Iterator[Passage]:
    """Yields the passages of a folder's shards in order, with one batch in memory.

    >>> first = next(read_passages(passages))
    >>> first.id, first.title, first.sentence_ends
    ('p0', 'Tower', (26, 34))
    """
    for batch in read_tables(folder, COLUMNS):
        yield from passages_of(batch)


def passages_of(table: pa.RecordBatch | pa.Table) -> Iterator[Passage]:
    """Yields the passages of a table that has the columns of a shard."""
    id_, title, text, ends = (table.column(name).to_pylist() for name in COLUMNS)
    yield from map(Passage, id_, title, text, map(tuple, ends))


class PassageRows:
    """Passages by row number, counted from 0 over all given shards and read on demand; any number of threads may read.

    Each call reads the row groups that hold its rows, one at a time, so one call for many rows is cheaper than many.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = list(files)
        self._groups: list[tuple[Path, int]] = []  # per row group: its file, its number in the file
        sizes: list[int] = []
        for file in files:
            metadata = pq.read_metadata(file)
            self._groups += [(file, group) for group in range(metadata.num_row_groups)]
            sizes += [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        self._firsts = np.cumsum([0, *sizes])  # per row group: its first row over all shards

    def __len__(self) -> int:
        return int(self._firsts[-1])

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the shards: those of `SCHEMA`, and the user's further columns."""
        return pq.read_schema(self._files[0]).remove_metadata()

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yields the given columns of all passages in order, a row group at most at a time."""
        return read_tables(self._files, columns)

    def tables(
        self, passage_rows: np.ndarray, columns: Sequence[str] | None = None
    ) -> Iterator[tuple[np.ndarray, pa.Table]]:
        """Yields, per row group, those of `passage_rows` (ascending) that are in it and a table of their passages."""
        bounds = np.searchsorted(passage_rows, self._firsts)
        wanted = np.flatnonzero(np.diff(bounds)).tolist()
        # A file is opened once: its footer describes all of its row groups.
        for file, indices in groupby(wanted, key=lambda index: self._groups[index][0]):
            with pq.ParquetFile(file) as parquet:
                for index in indices:
                    group_rows = passage_rows[bounds[index] : bounds[index + 1]]
                    group = self._groups[index][1]
                    table = parquet.read_row_group(group, columns=list(columns) if columns else None)
                    yield group_rows, table.take(int64_array(group_rows - self._firsts[index]))

    def records(self, passage_rows: Iterable[int]) -> dict[int, Row]:
        """Returns a dict from row to all columns of its passage, the user's further columns included."""
        found: dict[int, Row] = {}
        for group_rows, table in self.tables(np.unique(np.fromiter(passage_rows, np.int64))):
            found.update(zip(group_rows.tolist(), table.to_pylist(), strict=True))
        return found


def ids_in(folder: Path, ids: set[str]) -> set[str]:
    """Returns those of `ids` that the corpus in `folder` has; no other ids are held in memory."""
    batches = read_tables(folder, ["id"])
    return {name for batch in batches for name in batch.column("id").to_pylist() if name in ids}


def equal_texts(folder: Path, ids: Collection[str] | None = None) -> dict[str, str]:
    """Maps the ids of passages that share their title and text to the first id of each such group.

    With `ids`, only groups that contain one of them are included.
    """

    def rows() -> Iterator[tuple[str, str]]:
        for batch in read_tables(folder, ["id", "content_hash"]):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    digests, counts = np.unique(np.fromiter((hash(of) for _, of in rows()), np.int64), return_counts=True)
    repeated = set(digests[counts > 1].tolist())
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for name, of in rows() if repeated else ():
        if hash(of) in repeated:
            groups[of].append(name)
    shared = (group for group in groups.values() if len(group) > 1)
    wanted = (group for group in shared if ids is None or any(name in ids for name in group))
    return {name: group[0] for group in wanted for name in group}


class PassageLookup:
    """Passages by id, read from the shards on demand; the ids stay in memory, as Arrow strings (their bytes and 4 more per id)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        files = shard_files(self.folder)
        self._rows = PassageRows(files)
        ids = [chunk for file in files for chunk in pq.read_table(file, columns=["id"]).column("id").chunks]
        self._ids = pa.chunked_array(ids, pa.string())

    def passages(self, ids: Iterable[str]) -> dict[str, Passage]:
        """Returns a dict from id to passage."""
        each_once = pa.array(dict.fromkeys(ids), pa.string())
        return {passage.id: passage for _, passage in self.stream(each_once)}

    def stream(self, ids: pa.Array) -> Iterator[tuple[int, Passage]]:
        """Yields the passages of distinct `ids` in shard order, with their positions in `ids`; holds one row group."""
        for positions, table in self.tables(ids, COLUMNS):
            yield from zip(positions, passages_of(table), strict=True)

    def find(self, ids: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Returns the rows, ascending, of those distinct `ids` that the shards hold, and their positions in `ids`."""
        positions = pc.fill_null(pc.index_in(self._ids, value_set=ids), -1).to_numpy()
        rows = np.flatnonzero(positions >= 0)
        return rows, positions[rows]

    def tables(self, ids: pa.Array, columns: Sequence[str] | None) -> Iterator[tuple[list[int], pa.Table]]:
        """Yields the passages of distinct `ids` in shard order: per row group, their positions in `ids` and a table.

        Raises InputError, naming one of them, for ids that no shard holds.
        """
        rows, positions = self.find(ids)
        if len(rows) < len(ids):
            missing = ids.filter(pc.invert(pc.is_in(ids, value_set=self._ids)))
            raise InputError(
                f"{self.folder}: {len(missing):,} of {counted(len(ids), 'passage')} asked for, not in this corpus "
                f"(first: {missing[0].as_py()!r}); it was cut from other files than what names them"
            )
        done = 0
        for table_rows, table in self._rows.tables(rows, columns):
            yield positions[done : done + len(table_rows)].tolist(), table
            done += len(table_rows)
