"""The public files of exports: views as Parquet with a manifest (docs/export.md), in a folder that appears complete."""

import importlib.util
import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from multiview import names
from multiview.artifacts.local_store import rename_whole, share
from multiview.config import JsonObject
from multiview.errors import InputError
from multiview.export.views import IndexViews

FORMAT_VERSION = 1
"""Rises when a reader of the files would have to change."""
GROUPS_PER_FILE = 256
"""Row groups per file of an export in several files."""


def check_installed(extra: str, *packages: str) -> None:
    """Raises InputError where a package of an extra is missing."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise InputError(f"{package} is not installed: pip install '{names.DISTRIBUTION}[{extra}]'")


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A temporary folder beside `out`, to be filled; renamed to `out` at the end of the block, removed after an
    exception. Raises InputError, before the block, as `refuse_filled` does."""
    refuse_filled(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{out.name}-", suffix=".part", dir=out.parent))
    try:
        yield part
        part.chmod(0o755)  # as `mkdir` would make it
        share(part)
        rename_whole(part, out)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def refuse_filled(out: Path) -> None:
    """Raises InputError if `out` is a file, a folder that is not empty, or one that no other folder can replace: a
    link, a mount, or the current folder."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"--out: {out} exists and is not an empty folder: name another, or remove it")
    if out.is_symlink() or out.is_mount() or out.resolve() == Path.cwd():
        way = "name one inside it" if out.exists() else "remove the link, or name another"
        raise InputError(f"--out: {out} cannot be replaced by the finished folder: {way}")


def write_views(views: IndexViews, out: Path) -> JsonObject:
    """Writes all views of an index, in index order, into the new folder `out`; returns the manifest. Files are
    `views-00000.parquet` …, with the rows of `IndexViews.schema`, and `export.json`. Memory holds one row group.
    Equal indexes give equal bytes, wherever their stores lie. Raises InputError if `out` is not empty."""
    description = {
        "format": "views",
        "version": FORMAT_VERSION,
        **asdict(views.name),
        "dimension": views.dim,
        "similarity": "dot product",
        "score": "the max over a passage's views of the dot product with the question's vector",
        # What the index adds to that score, and the export does not.
        **({"ranking": views.ranking} if views.ranking else {}),
    }
    metadata = {f"multiview.{name}": str(value) for name, value in sorted(description.items())}
    schema, batches = views.schema.with_metadata(metadata), views.batches()
    rows: dict[str, int] = {}
    with new_folder(out) as folder:
        first = next(batches, None)
        while first is not None or not rows:  # an export without views has one file, for its schema
            file = f"views-{len(rows):05d}.parquet"
            group = [] if first is None else chain([first], islice(batches, GROUPS_PER_FILE - 1))
            rows[file] = _write_rows(folder / file, schema, group)
            first = next(batches, None)
        manifest = {**description, "views": sum(rows.values()), "files": rows}
        write_manifest(folder, manifest)
        return manifest


def _write_rows(file: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Writes batches of views as a Parquet file, each as one row group; returns the number of rows. Vectors are split
    by byte: float16 values widened to float32 leave some bytes empty, so files are a third smaller."""
    written, encoding = 0, {"vector.list.element": "BYTE_STREAM_SPLIT"}
    with pq.ParquetWriter(
        file, schema, compression="zstd", use_dictionary=False, column_encoding=encoding
    ) as writer:
        for batch in batches:
            writer.write_batch(batch, row_group_size=max(1, batch.num_rows))
            written += batch.num_rows
    return written


def write_json(path: Path, content: JsonObject | list[JsonObject]) -> None:
    """Writes `content` to `path` as JSON, and makes the folder if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_manifest(folder: Path, description: Mapping[str, object]) -> None:
    """Writes `export.json`."""
    text = json.dumps(dict(description), indent=1, sort_keys=True, ensure_ascii=False)
    (folder / "export.json").write_text(f"{text}\n", encoding="utf-8")
