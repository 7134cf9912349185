"""Generated queries as Parquet: a row a passage, in the passages' order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from multiview.data.passages import ROW_GROUP, Passage
from multiview.errors import InputError

FILE = "queries.parquet"
SCHEMA = pa.schema([("id", pa.string()), ("queries", pa.list_(pa.string()))])

Row = tuple[str, tuple[str, ...]]
"""A passage's id and its queries: stripped, not empty, in the order drawn, repeated ones among them."""


def write_queries(rows: Iterable[Row], file: Path) -> None:
    """Write the queries of some passages, one row group."""
    ids, queries = zip(*rows, strict=True)
    table = pa.table([list(ids), [list(each) for each in queries]], schema=SCHEMA)
    pq.write_table(table, file, compression="zstd")


def join(files: Sequence[Path], target: Path) -> None:
    """Put files of queries together, a row group each, holding one of them in memory."""
    with pq.ParquetWriter(target, SCHEMA, compression="zstd") as writer:
        for file in files:
            writer.write_table(pq.read_table(file, schema=SCHEMA))


def iterate_queries(folder: Path) -> Iterator[Row]:
    """The rows of a folder's files of queries, file by file, holding a thousand in memory.

    InputError when there are none.
    """
    files = sorted(Path(folder).glob("*.parquet"))
    if not files:
        raise InputError(f"{folder}: no queries in it; run the generate-queries step")
    for file in files:
        with pq.ParquetFile(file, pre_buffer=False) as parquet:  # else the whole file is read ahead
            for batch in parquet.iter_batches(ROW_GROUP, columns=SCHEMA.names):
                ids, queries = (batch.column(name).to_pylist() for name in SCHEMA.names)
                yield from zip(ids, map(tuple, queries), strict=True)


def distinct(queries: Iterable[str]) -> tuple[str, ...]:
    """Each query once, in the order drawn: equal ones would give equal views."""
    return tuple(dict.fromkeys(queries))


def read_queries(folders: Iterable[Path]) -> dict[str, tuple[str, ...]]:
    """The distinct queries of each passage of some shards, by id. InputError for a passage met twice."""
    found: dict[str, tuple[str, ...]] = {}
    for folder in folders:
        for name, queries in iterate_queries(folder):
            if name in found:
                raise InputError(
                    f"{folder}: queries of passage {name!r} are also in another shard; give each shard once"
                )
            found[name] = distinct(queries)
    return found


def with_queries(passages: Iterable[Passage], folder: Path) -> Iterator[tuple[Passage, tuple[str, ...]]]:
    """Each passage of a shard with its distinct queries, the two files read side by side.

    InputError unless the queries in `folder` are those of these passages, in their order.
    """
    rows = iterate_queries(folder)
    for passage in passages:
        name, queries = next(rows, (None, ()))
        if name != passage.id:
            raise InputError(
                f"{folder}: queries of {name!r} where passage {passage.id!r} comes; they were generated from other passages"
            )
        yield passage, distinct(queries)
    if (row := next(rows, None)) is not None:
        raise InputError(
            f"{folder}: queries of {row[0]!r} after the last passage; they were generated from other passages"
        )
