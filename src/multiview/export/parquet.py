"""An index's views as public Parquet files (docs/export.md)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice
from pathlib import Path

import pyarrow as pa

from multiview.config import JsonObject
from multiview.export.files import (
    FORMAT_VERSION,
    GROUPS_PER_FILE,
    VIEWS_PER_GROUP,
    grouped,
    new_folder,
    with_metadata,
    write_manifest,
    write_rows,
)
from multiview.export.views import IndexViews

VIEWS_FORMAT = "views"
SIMILARITY = "dot product"
SCORE = "the max over a passage's views of the dot product with the question's vector"


def describe(views: IndexViews, format: str) -> JsonObject:
    """What the schema's metadata and the manifest of an export say, without the store's location: equal indexes give
    equal bytes."""
    return {
        "format": format,
        "version": FORMAT_VERSION,
        "index": views.name.index,
        "digest": views.name.digest,
        "model": views.name.model,
        "passages": views.name.passages,
        "dimension": views.dim,
        "similarity": SIMILARITY,
        "score": SCORE,
    }


def write_views(views: IndexViews, out: Path) -> JsonObject:
    """Writes all views of an index, in index order, into the new folder `out`; returns the manifest.

    Files are `views-00000.parquet` …, with the rows of `IndexViews.schema`, and `export.json`. Memory holds one row
    group. Equal indexes give equal bytes. Raises InputError where `out` is not empty.
    """
    with new_folder(out) as folder:
        return write_views_of(folder, describe(views, VIEWS_FORMAT), views.schema, views.batches())


def write_views_of(
    folder: Path, description: JsonObject, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> JsonObject:
    """Writes rows of views as the files of an export into `folder`; returns the manifest."""
    schema = with_metadata(schema, description)
    tables = grouped(batches, schema, VIEWS_PER_GROUP)
    rows: dict[str, int] = {}
    first = next(tables, schema.empty_table())  # an export without views has one file, for its schema
    while first is not None:
        file = views_file(len(rows))
        rows[file] = write_rows(folder / file, schema, chain([first], islice(tables, GROUPS_PER_FILE - 1)))
        first = next(tables, None)
    manifest = {**description, "views": sum(rows.values()), "files": rows}
    write_manifest(folder, manifest)
    return manifest


def views_file(number: int) -> str:
    """The name of an export's file of views, counted from 0."""
    return f"views-{number:05d}.parquet"
