"""Passages of files that hold questions too, kept on disk so that such a file is parsed once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from multiview.data.reading.formats import FORMATS, Joint
from multiview.data.reading.tables import BATCH, Row, tables_of_rows
from multiview.errors import InputError

OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class KeptPassages:
    """The passages of SQuAD's and DPR's files, kept in `folder` while their questions are read.

    Only a file that was read to its end is kept. One whose passages are faulty is not: whoever reads its passages
    finds the fault.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: dict[str, Path] = {}

    def questions(self, file: str, joint: Joint) -> Iterator[Row]:
        """Yields the rows of a file's questions and keeps its passages."""
        path = self._folder / f"{len(self._kept)}.arrow"
        rows: list[Row] = []
        sound = True
        with path.open("wb") as sink:
            for entry in joint.entries(file):
                yield from joint.questions(file, entry)
                if not sound:
                    continue
                try:
                    rows += joint.passages(file, entry)
                    while len(rows) >= BATCH:
                        _write(rows[:BATCH], file, sink)
                        del rows[:BATCH]
                except InputError:
                    sound = False
            try:
                _write(rows, file, sink)
            except InputError:
                sound = False
        if sound:
            self._kept[file] = path

    def tables(self, file: str, form: str) -> Iterator[pa.Table]:
        """Yields the tables of a file's passages, those that its format's reader yields."""
        path = self._kept.get(file)
        if path is None:
            read = FORMATS[form].passages
            yield from read(file) if read else ()
            return
        size = path.stat().st_size
        with path.open("rb") as source:
            while source.tell() < size:
                with pa.ipc.open_stream(source) as table:
                    yield table.read_all()


def _write(rows: list[Row], file: str, sink: object) -> None:
    """Appends the table of up to `BATCH` rows as a stream of its own: a column's type may differ from table to table."""
    for table in tables_of_rows(rows, file):
        with pa.ipc.new_stream(sink, table.schema, options=OPTIONS) as writer:
            writer.write_table(table)
