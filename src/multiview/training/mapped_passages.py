"""The passages that a training reads, in a file mapped into memory."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from multiview.data.passages import COLUMNS, ROW_GROUP, SCHEMA, Passage, passages_of
from multiview.data.queries import distinct
from multiview.encoding.embeddings import QUERIES_FIELD

MAPPED_FILE = "passages.arrow"
MAPPED_SCHEMA = pa.schema([*(SCHEMA.field(name) for name in COLUMNS), QUERIES_FIELD])


class MappedPassages(Mapping[str, Passage]):
    """Passages by id, each with its distinct queries, in a file that is mapped into memory.

    Memory holds 8 bytes per passage and, once asked for, the ids of the passages that have queries, as Arrow strings.
    Texts are read from the file when they are looked up. Another process that gets the mapping opens the file itself.
    """

    def __init__(self, file: Path) -> None:
        """Opens a file that `write` has written."""
        self._path = file
        self._file = pa.ipc.open_file(pa.memory_map(str(file)))
        self._ids: pa.ChunkedArray = self._file.read_all().column("id")
        self._order = pc.sort_indices(self._ids).to_numpy()

    def __reduce__(self) -> tuple[type[Self], tuple[Path]]:
        return type(self), (self._path,)

    @classmethod
    def write(cls, rows: Iterable[tuple[Passage, Sequence[str]]], file: Path) -> Self:
        """Writes passages with their queries into `file`, `ROW_GROUP` at a time, and opens it."""
        rest = iter(rows)
        with pa.ipc.new_file(str(file), MAPPED_SCHEMA) as writer:
            while chunk := list(islice(rest, ROW_GROUP)):
                columns = [[getattr(passage, name) for passage, _ in chunk] for name in COLUMNS]
                queries = [list(distinct(asked)) for _, asked in chunk]
                writer.write_batch(pa.record_batch([*columns, queries], schema=MAPPED_SCHEMA))
        return cls(file)

    @cached_property
    def ids_with_queries(self) -> pa.ChunkedArray:
        """Ids of the passages that have queries, in the order of the file."""
        queries = self._file.read_all().column("queries")
        return self._ids.filter(pc.greater(pc.list_value_length(queries), 0))

    def __getitem__(self, id_: str) -> Passage:
        return next(passages_of(self._row(id_)))

    def queries(self, id_: str) -> tuple[str, ...]:
        """The distinct queries of a passage, in the order of sampling."""
        return tuple(self._row(id_).column("queries")[0].as_py())

    def _row(self, id_: str) -> pa.RecordBatch:
        position = bisect_left(self._order, id_, key=self._id)
        if position == len(self._order) or self._id(self._order[position]) != id_:
            raise KeyError(id_)
        batch, row = divmod(int(self._order[position]), ROW_GROUP)
        return self._file.get_batch(batch).slice(row, 1)

    def _id(self, row: np.integer) -> str:
        return self._ids[int(row)].as_py()

    def __iter__(self) -> Iterator[str]:
        return (id_.as_py() for id_ in self._ids)

    def __len__(self) -> int:
        return len(self._ids)
