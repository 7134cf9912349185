"""The public files of exports: Parquet with a manifest, in a folder that appears whole or not at all."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from multiview.artifacts.rights import share
from multiview.config import JsonObject
from multiview.errors import InputError

FORMAT_VERSION = 1
"""Rises when a reader of the files would have to change."""

MANIFEST_FILE = "export.json"

METADATA = "multiview."
"""Prefix of the keys in the metadata of a file's schema."""

VIEWS_PER_GROUP = 4096
"""Views per row group: what a reader holds at least."""

GROUPS_PER_FILE = 256
"""Row groups per file of an export in several files."""

VECTOR_ELEMENTS = "vector.list.element"
"""The column of a vector's values, by its path in a Parquet file."""


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A temporary folder beside `out`, to be filled; renamed to `out` at the end of the block, removed after an exception.

    What kills the process at once leaves a folder `.NAME-….part` beside `out`, which nothing reads. Raises InputError,
    before the block, where `out` is a file or a folder that is not empty.
    """
    refuse_filled(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{out.name}-", suffix=".part", dir=out.parent))
    try:
        yield part
        part.chmod(0o755)  # as `mkdir` would make it
        share(part)
        part.rename(out)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def refuse_filled(out: Path) -> None:
    """Raises InputError where `out` is a file, or a folder that is not empty."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"--out: {out} exists and is not an empty folder: name another, or remove it")


def write_rows(file: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> int:
    """Writes tables of rows as a Parquet file, each as one row group; returns the number of rows.

    Equal rows give equal bytes. The bytes of vectors are split by their place in the float32, since float16 values
    widened to float32 leave some of them empty: a third smaller than without.
    """
    vectors = [VECTOR_ELEMENTS] if "vector" in schema.names else []
    others = [path for path in _leaves(schema) if path not in vectors]
    written = 0
    with pq.ParquetWriter(
        file,
        schema,
        compression="zstd",
        use_dictionary=others,  # pyright: ignore[reportArgumentType]: names of columns are taken too
        column_encoding=dict.fromkeys(vectors, "BYTE_STREAM_SPLIT") or None,
    ) as writer:
        for table in tables:
            writer.write_table(table, row_group_size=max(1, table.num_rows))
            written += table.num_rows
    return written


def grouped(batches: Iterable[pa.RecordBatch], schema: pa.Schema, rows: int) -> Iterator[pa.Table]:
    """The rows of consecutive batches, `rows` at a time, the last time fewer, with the metadata of `schema`."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        while count >= rows:
            table = pa.Table.from_batches(held, held[0].schema)
            yield table.slice(0, rows).combine_chunks().replace_schema_metadata(schema.metadata)
            held = table.slice(rows).to_batches()
            count -= rows
    if count:
        table = pa.Table.from_batches(held, held[0].schema)
        yield table.combine_chunks().replace_schema_metadata(schema.metadata)


def with_metadata(schema: pa.Schema, description: Mapping[str, object]) -> pa.Schema:
    """A schema whose metadata name each entry of `description` as `multiview.NAME`."""
    metadata = {f"{METADATA}{name}": str(value) for name, value in description.items()}
    return schema.with_metadata(dict(sorted(metadata.items())))


def write_json(path: Path, content: JsonObject | list[JsonObject]) -> None:
    """Writes `content` to `path`, its folder included."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_manifest(folder: Path, description: Mapping[str, object]) -> None:
    """Writes `export.json`."""
    text = json.dumps(dict(description), indent=1, sort_keys=True, ensure_ascii=False)
    (folder / MANIFEST_FILE).write_text(f"{text}\n", encoding="utf-8")


def read_manifest(folder: Path, format: str) -> JsonObject:
    """Returns the manifest of an export. Raises InputError for a folder that holds none of this format and version."""
    try:
        manifest = json.loads((folder / MANIFEST_FILE).read_text())
        found, version = manifest["format"], manifest["version"]
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{folder} holds no export: {MANIFEST_FILE} is missing or damaged") from None
    if (found, version) != (format, FORMAT_VERSION):
        raise InputError(
            f"{folder} holds {found} in version {version}: {format} in version {FORMAT_VERSION} is expected"
        )
    return manifest


def read_batches(file: Path, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yields the rows of an export's file in order, with one row group in memory."""
    with pq.ParquetFile(file, pre_buffer=False) as parquet:
        yield from parquet.iter_batches(batch_size=VIEWS_PER_GROUP, columns=columns)


def _leaves(schema: pa.Schema) -> list[str]:
    """The paths of a Parquet file's columns with this schema."""
    sink = pa.BufferOutputStream()
    pq.write_metadata(schema, sink)
    parquet = pq.read_metadata(pa.BufferReader(sink.getvalue())).schema
    return [parquet.column(number).path for number in range(len(parquet))]
