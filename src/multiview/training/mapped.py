"""The passages of a corpus with their generated queries, in a file that is mapped into memory."""

# pyarrow.compute fills itself with functions when imported, which pyright cannot see.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from multiview.data.passages import COLUMNS, ROW_GROUP, SCHEMA, Passage, passages_of, read_passages
from multiview.data.queries import distinct, with_queries
from multiview.encoding.embeddings import QUERIES_FIELD

ROWS = pa.schema([*(SCHEMA.field(name) for name in COLUMNS), QUERIES_FIELD])


class MappedPassages(Mapping[str, Passage]):
    """Passages by id, each with its distinct queries.

    Memory holds the ids of the passages that have queries, as Arrow strings, and 8 bytes per passage. Texts are
    read from the file when they are looked up.
    """

    def __init__(self, corpus: Path, queries: Path, scratch: Path) -> None:
        """Copies the passages of `corpus` and their `queries` into a file in `scratch`, `ROW_GROUP` at a time.

        Raises InputError unless the queries belong to these passages, in the passages' order.
        """
        file = str(scratch / "passages.arrow")
        rows = with_queries(read_passages(corpus), queries)
        with pa.ipc.new_file(file, ROWS) as writer:
            while chunk := list(islice(rows, ROW_GROUP)):
                columns = [[getattr(passage, name) for passage, _ in chunk] for name in COLUMNS]
                writer.write_batch(
                    pa.record_batch([*columns, [list(distinct(asked)) for _, asked in chunk]], schema=ROWS)
                )
        self._file = pa.ipc.open_file(pa.memory_map(file))
        table = self._file.read_all()
        self._ids: pa.ChunkedArray = table.column("id")
        self._order = pc.sort_indices(self._ids).to_numpy()
        self.ids_with_queries: pa.ChunkedArray = self._ids.filter(
            pc.greater(pc.list_value_length(table.column("queries")), 0)
        )
        """Ids of the passages that have queries, in the order of the corpus."""

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
