"""The delta between two indexes of one model: the passages whose views were added, changed or removed.

Two passages of one id are equal where their views, titles, texts, sentences, queries and own columns are. With one
model, spans and snippets follow from these.
"""

# pyarrow.compute defines its functions when it is imported, so pyright does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from multiview.config import JsonObject
from multiview.errors import InputError
from multiview.export.files import describe, new_folder, with_metadata, write_manifest, write_rows
from multiview.export.views import IndexViews

DELTA_FORMAT = "delta"
ADDED_FILE = "added.parquet"
CHANGED_FILE = "changed.parquet"
REMOVED_FILE = "removed.parquet"

REMOVED_SCHEMA = pa.schema([pa.field("passage_id", pa.string(), nullable=False)])

DIGEST_BYTES = 16


class OtherModel(InputError):
    """Two indexes of different models, between which there is no delta."""


@dataclass(frozen=True)
class Differences:
    """The passages that differ between two indexes. A passage without views counts as absent."""

    added: np.ndarray
    """Rows in the new index, rising."""
    changed: np.ndarray
    """Rows in the new index, rising."""
    removed: np.ndarray
    """Rows in the old index, rising."""


def differences(old: IndexViews, new: IndexViews) -> Differences:
    """Returns the passages that differ between two indexes, by content.

    Memory holds the ids of both, a digest per passage, and a row group of each corpus. Raises OtherModel for indexes of
    different models.
    """
    if old.name.model != new.name.model:
        raise OtherModel(
            f"{old.name.index} is of model {old.name.model[:12]}, and {new.name.index} of {new.name.model[:12]}: every "
            "view differs, and there is no delta: export the views whole"
        )
    old_rows, new_rows = (np.flatnonzero(views.index.view_counts) for views in (old, new))
    old_ids, new_ids = old.index.ids.take(pa.array(old_rows)), new.index.ids.take(pa.array(new_rows))
    found = pc.fill_null(pc.index_in(new_ids, value_set=old_ids), -1).to_numpy()
    kept = found >= 0
    same = _digests(old, old_rows)[found[kept]] == _digests(new, new_rows)[kept]
    gone = np.ones(len(old_rows), bool)
    gone[found[kept]] = False
    return Differences(new_rows[~kept], new_rows[kept][~same], old_rows[gone])


def _digests(views: IndexViews, rows: np.ndarray) -> np.ndarray:
    """A digest of everything that an export says of each passage at `rows` [n] of 16 bytes."""
    digests = np.empty(len(rows), f"V{DIGEST_BYTES}")
    types = repr([(field.name, str(field.type)) for field in views.columns]).encode()
    for place, indexed in enumerate(views.read(rows)):
        digest = hashlib.sha256(types)
        said = (indexed.passage, indexed.columns, indexed.queries)
        digest.update(repr(said).encode("utf-8", "surrogatepass"))
        digest.update(views.index.views_of(indexed.row).tobytes())
        digests[place] = digest.digest()[:DIGEST_BYTES]
    return digests


def write_delta(old: IndexViews, new: IndexViews, out: Path) -> JsonObject:
    """Writes what changed from one index to another of the same model into the new folder `out`; returns the manifest.

    `added.parquet` and `changed.parquet` hold all views of these passages in the new index, with the schema of exported
    views; `removed.parquet` the ids of passages that are gone. Raises OtherModel where the models differ, and
    InputError where `out` is not empty.
    """
    with new_folder(out) as folder:
        differ = differences(old, new)
        description = {
            **describe(new, DELTA_FORMAT),
            "from_index": old.name.index,
            "from_digest": old.name.digest,
            "from_passages": old.name.passages,
        }
        schema = with_metadata(new.schema, description)
        views: dict[str, int] = {}
        for file, rows in ((ADDED_FILE, differ.added), (CHANGED_FILE, differ.changed)):
            views[file] = write_rows(folder / file, schema, new.batches(rows))
        gone = old.index.ids.take(pa.array(differ.removed))
        removed = pa.RecordBatch.from_arrays([gone], schema=REMOVED_SCHEMA)
        removed_schema = with_metadata(REMOVED_SCHEMA, description)
        views[REMOVED_FILE] = write_rows(folder / REMOVED_FILE, removed_schema, [removed])
        counts = {"added": differ.added, "changed": differ.changed, "removed": differ.removed}
        manifest = {
            **description,
            "counts": {name: len(rows) for name, rows in counts.items()},
            "files": views,
        }
        write_manifest(folder, manifest)
        return manifest
