"""The new index of a corpus that changed, made of the old one and the embeddings of what is new."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from multiview import names
from multiview.artifacts.record import load_record
from multiview.config import Index
from multiview.data.passages import shard_files
from multiview.encoding.embeddings import Embeddings
from multiview.errors import InputError
from multiview.index.approximate.building import build, description
from multiview.index.approximate.editing import Editing, editable
from multiview.index.approximate.kinds import EXACT
from multiview.index.build import Fill, open_embeddings, write_index
from multiview.index.stored_views import ViewBlocks
from multiview.lineage.ancestry import Ancestor
from multiview.refresh.changes import CHANGES_FILE, KNOWN_BY
from multiview.refresh.drift import Drift, drift, why_retrain
from multiview.refresh.merged_corpus import ADDED_FILE, OldIndex, Refreshed
from multiview.refresh.merged_views import GatheredViews
from multiview.steps.context import StepContext
from multiview.steps.events import Events


def refresh_index(context: StepContext) -> None:
    """Step: the index of a new corpus, `passages`: what `changes` kept of the `old` index, and the `embeddings` of the
    others, by `model`, a shard of the changes each.

    Writes what `indexing.build_index` writes of the same stored views in the new corpus's order. An exact index is
    the same, byte for byte. A trained one keeps its quantizers, and is the one that they give of all views in order
    (`approximate.editing`); it is trained anew, on the stored views, where its kind cannot be edited, its settings
    are others, or it has drifted past a limit of `settings.refresh`. The fact `rebuilt` says why, or nothing. Beside
    a trained index that is kept, `added.parquet` says which passages came since.

    Raises InputError for changes that are not of these inputs, and embeddings that are not of the changed passages,
    in order, by this model.
    """
    folder = context.output("index")
    shards = open_embeddings(
        context.list_input("embeddings"), context.recorded_input("model").digest, context.settings.encode
    )
    full = _check_changes(context)
    numbers = pq.read_table(context.input("changes").path / CHANGES_FILE)["old"].to_numpy()
    _check_order(shards, context.input("changes").path)
    old = OldIndex.open(context.input("old").path) if (numbers >= 0).any() else None
    refreshed = Refreshed(numbers, old, shards)
    content = refreshed.content(context.recorded_input("model").digest)
    rebuilt, fill = _way(refreshed, full, context)
    write_index(folder, content, context.settings.index, fill or build, context.events)
    if fill:
        pq.write_table(pa.table({"added": refreshed.added}), folder / ADDED_FILE)
    context.events.fact("rebuilt", rebuilt)


def _way(refreshed: Refreshed, full: str, context: StepContext) -> tuple[str, Fill | None]:
    """Why an approximate index is built anew, or what fills the old one with the new corpus."""
    old, chosen = refreshed.old, context.settings.index
    if old is None:
        return full or "no passage of the old index is kept", None
    if load_record(context.input("old").address)[1].config.get("index", {}) != chosen.key_settings():
        return "other settings of index", None
    if chosen.kind == EXACT or not refreshed.views.rows:  # of which no approximate index is built
        return "", None
    index = old.read()
    if not editable(index):
        return f"an index of kind {chosen.kind} cannot be edited", None
    found = None
    if old.header["sample"]:
        found = drift(index, refreshed.views, np.repeat(refreshed.added, refreshed.counts), chosen.seed)
        if why := why_retrain(found, context.settings.refresh):
            return why, None
    return "", _edited(index, refreshed, old.header, found)


def _edited(index: Any, refreshed: Refreshed, header: dict[str, Any], found: Drift | None) -> Fill:
    """Fills the old faiss `index` with the new corpus."""

    def fill(
        sources: Sequence[ViewBlocks], chosen: Index, keep: Callable[[np.ndarray], Any], events: Events
    ) -> tuple[Any, dict[str, Any]]:
        views: GatheredViews = refreshed.views
        editing = Editing(index, refreshed.old_rows(), views.rows)
        for number in range(views.blocks):
            block, rows = views.read_block(number), views.rows_of(number)
            keep(block)
            new = views.are_new(rows)
            editing.add(block[new].astype(np.float32), rows[new])
            events.progress(int(rows[-1]) + 1, views.rows, "views")
        editing.finish()
        about = description(index, chosen, header["factory"], header["sample"])
        if found:
            about |= {names.DRIFT_ADDED: found.added, names.DRIFT_ERROR: found.error}
        return index, about

    return fill


def _check_changes(context: StepContext) -> str:
    """Why everything was to be encoded, by the record of the changes. Raises InputError if they are of other inputs."""
    staged = context.input("changes")
    changes = Ancestor.of(staged)
    assert changes is not None, "staged inputs have an address"
    record, address = changes.record, staged.address
    for name, given in (
        ("index", context.input("old")),
        ("model", context.recorded_input("model")),
        ("passages", context.recorded_input("passages")),
    ):
        if record.inputs[name][0].digest != given.digest:
            raise InputError(
                f"{address}: these changes were found with another {name} than {given.address}: run the step "
                "changes with that one"
            )
    if record.config.get("encode", {}) != context.settings.encode.key_settings():
        raise InputError(
            f"{address}: these changes were found for other settings of encode: give both the same"
        )
    return record.facts["full"]


def _check_order(shards: Sequence[Embeddings], changes: Path) -> None:
    """Raise InputError unless the shards hold the passages of `changes` one by one."""
    meant = pa.concat_tables([pq.read_table(file, columns=KNOWN_BY) for file in shard_files(changes)])
    found = pa.concat_tables([shard.table.select(KNOWN_BY) for shard in shards])
    way_out = "give the embeddings of all shards of these changes, in order"
    if found.num_rows != meant.num_rows:
        raise InputError(
            f"the embeddings hold {found.num_rows} passages, but {changes} has {meant.num_rows} to encode: {way_out}"
        )
    for name in KNOWN_BY:
        differ = pc.call_function("not_equal", [found[name], meant[name]]).to_numpy()
        if differ.any():
            at = int(differ.argmax())
            raise InputError(
                f"the embeddings are not of the changed passages: {found['id'][at].as_py()!r} comes where {changes} "
                f"has {meant['id'][at].as_py()!r}, or has another content: {way_out}"
            )
