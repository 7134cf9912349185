"""Checked passages on disk until their shards are written: only then are all columns and the size of each shard known."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from pathlib import Path

import pyarrow as pa

from multiview.data.reading.articles import ARTICLE_COLUMNS
from multiview.data.sentences import SentencesOf
from multiview.data.shards import Finish, with_computed_columns

AHEAD = 16
"""Tables whose sentences are split, by other processes, ahead of the one that is stored."""
OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd")


class PassageCache:
    """Tables of passages with their sentences and hashes, each in a file of `folder`. So the user's files are read once."""

    def __init__(self, folder: Path, sentences_of: SentencesOf, named: Collection[str] | None) -> None:
        """`named` are the ids of passages and articles that may be wanted; None for all."""
        self._folder, self._sentences_of, self._named = folder, sentences_of, named
        self._begun: deque[Finish] = deque()
        self._files: list[Path] = []

    def add(self, table: pa.Table) -> None:
        """Begins to split the sentences of a table's passages, and stores an earlier table."""
        if self._named is not None:
            named = [table.column(name) for name in ("id", ARTICLE_COLUMNS[0]) if name in table.column_names]
            rows = zip(*(column.to_pylist() for column in named), strict=True)
            table = table.filter(
                pa.array([any(id_ in self._named for id_ in row) for row in rows], pa.bool_())
            )
        if table.num_rows:
            self._begun.append(with_computed_columns(table, self._sentences_of))
        if len(self._begun) > AHEAD:
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
            columns = [
                table.column(field.name).cast(field.type)
                if field.name in table.column_names
                else pa.nulls(table.num_rows, field.type)
                for field in schema
            ]
            if table.num_rows:
                yield pa.table(columns, schema=schema)

    def _store(self) -> None:
        """Stores the table begun first as a stream of its own: a column's type may differ from table to table."""
        table = self._begun.popleft()()
        self._files.append(self._folder / f"{len(self._files)}.arrow")
        with pa.ipc.new_stream(str(self._files[-1]), table.schema, options=OPTIONS) as writer:
            writer.write_table(table)
