"""Generated queries as Parquet: one row per passage, in the order of the passages."""

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from multiview.artifacts.scratch import scratch
from multiview.data.passages import Passage, read_tables
from multiview.errors import InputError
from multiview.steps.context import StepContext
from multiview.steps.path import shard_file, shard_name

FILE = "queries.parquet"
SCHEMA = pa.schema([("id", pa.string()), ("queries", pa.list_(pa.string()))])

PARTS_PER_CHECKPOINT = 10
"""Number of parts between two checkpoints."""

QueriesRow = tuple[str, tuple[str, ...]]
"""A passage's id and its queries: stripped, not empty, in the order drawn, repeated ones included."""


def query_table(rows: Iterable[QueriesRow]) -> pa.Table:
    """Returns the queries of some passages as a table with the columns of their file."""
    return pa.table([*zip(*rows, strict=True)], schema=SCHEMA)


Part = TypeVar("Part")


def write_by_parts(
    context: StepContext,
    parts: Iterable[Part],
    make: Callable[[Part], pa.Table],
    target: Path,
    schema: pa.Schema = SCHEMA,
) -> int:
    """Writes the tables that `make` returns for `parts` into `target`, one row group each; returns the number of rows.

    After a run that was killed, only the parts that no checkpoint holds are made.
    """
    latest = context.checkpoints.latest()
    with tempfile.TemporaryDirectory(dir=scratch()) as folder:
        for kept in latest.glob("part-*.parquet") if latest is not None else ():
            shutil.copy(kept, folder)
        for number, part in enumerate(parts, 1):
            file = Path(folder, f"part-{number:06d}.parquet")
            if not file.exists():
                pq.write_table(make(part), file, compression="zstd")
                if number % PARTS_PER_CHECKPOINT == 0:
                    context.checkpoints.publish(number, Path(folder))
        rows = 0
        with pq.ParquetWriter(target, schema, compression="zstd") as writer:
            for file in sorted(Path(folder).glob("part-*.parquet")):
                table = pq.read_table(file, schema=schema)
                writer.write_table(table)
                rows += table.num_rows
    return rows


def iterate_queries(folder: Path) -> Iterator[QueriesRow]:
    """Yields the rows of a folder's files of queries, with a thousand in memory. Raises InputError when there are no files."""
    if not (files := sorted(folder.glob("*.parquet"))):
        raise InputError(f"{folder}: no queries in it; run the generate-queries step")
    for batch in read_tables(files, SCHEMA.names):
        ids, queries = (batch.column(name).to_pylist() for name in SCHEMA.names)
        yield from zip(ids, map(tuple, queries), strict=True)


def distinct(queries: Iterable[str]) -> tuple[str, ...]:
    """Returns each query once, in the order drawn, because equal queries would give equal views."""
    return tuple(dict.fromkeys(queries))


def with_queries(passages: Iterable[Passage], folder: Path) -> Iterator[tuple[Passage, tuple[str, ...]]]:
    """Yields each passage of a shard with its queries as drawn. Raises InputError for queries of other passages."""
    for passage, row in zip_longest(passages, iterate_queries(folder)):
        passage_id, queries = row or (None, ())
        if passage is None or passage_id != passage.id:
            place = f"where passage {passage.id!r} comes" if passage else "after the last passage"
            raise InputError(f"{folder}: queries of {passage_id!r} {place}; generated from other passages")
        yield passage, queries


def gather_queries(context: StepContext) -> None:
    """Step: gathers the queries of all shards (`parts`) in `queries`, one file each, named as the shard of passages."""
    shards = context.list_input("parts")
    for index, shard in enumerate(shards):
        shutil.copyfile(shard.path / FILE, context.output("queries") / shard_file(shard_name(index)))
        context.events.progress(index + 1, len(shards), "shards")
