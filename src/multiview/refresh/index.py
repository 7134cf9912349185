"""The index of a changed corpus, made from the old index and the embeddings of the new passages."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multiview import metric_names
from multiview.artifacts.record import load_record
from multiview.config import Index, JsonObject
from multiview.data.passages import read_passages, shard_files
from multiview.encoding.embeddings import Embeddings
from multiview.errors import InputError, counted
from multiview.index.approximate import EXACT, FaissObject
from multiview.index.approximate.editing import IndexEditor, editable
from multiview.index.approximate.kinds import description, factory_string, make_index
from multiview.index.build import ApproximateBuilder, BlocksOfViews, open_embeddings, write_index
from multiview.index.faiss_library import faiss, list_count
from multiview.index.merged_corpus import ADDED_FILE, MergedCorpus, OldIndex
from multiview.index.ranker import write_search
from multiview.index.stored_views import sampled_rows
from multiview.index.view_index import INDEX_FILE
from multiview.refresh.changes import CHANGES_FILE, KNOWN_BY
from multiview.steps.context import StepContext

RETRAIN_ADDED = 0.3
"""Share of views added since an index's training above which it is trained again."""
RETRAIN_ERROR = 2.0
"""Ratio of added views' squared error to earlier views' above which, beyond chance, an index is trained again."""
RETRAIN_LISTS = 2
"""Ratio of an index's inverted lists to those that its kind has at its size from which it is trained again: a search
probes few of them, and in an index that shrank they are almost empty."""
TRAINING_VIEWS = 256
"""Fewest views from which faiss trains a `QUANTIZER` of eight bits; a transform also needs one for each dimension."""
QUANTIZER = re.compile("PQ|RQ|LSQ|PCA|ITQ")
SAMPLED = 4096
"""Most views whose error is measured, both of the added ones and of the others."""


@dataclass(frozen=True)
class Drift:
    """The drift of an index since its training."""

    added: float
    """Share of the index's views that were added since its training."""
    error: float | None = None
    """As `metric_names.DRIFT_ERROR`; None where there is nothing to compare, or faiss cannot decode the views."""
    deviation: float = 0.0
    """Standard error of `error` over the added views: large where they are few."""


def refresh_index(context: StepContext, with_search: bool = False) -> None:
    """Step: build the index of a new corpus, `passages`, from the `old` index and the embeddings of new passages.

    The passages that `changes` kept come from the old index, the others from `embeddings` by `model`, one input per
    shard of the changes. Writes the files that `build_index` writes from the same stored views in the new corpus's
    order, an exact index byte for byte. A trained index keeps its quantizers (`approximate.editing`), and
    `added.parquet` marks the passages that were added since its training; it is trained anew, on the stored views,
    where its kind cannot be edited, its settings differ, or `why_retrain` says so. The fact `rebuilt` says why.

    Raises InputError where the embeddings are not those of the changed passages, in order, by this model.
    """
    folder, model = context.output("index"), context.recorded_input("model").digest
    shards = open_embeddings(context.list_input("embeddings"), model, context.settings.encode)
    full = load_record(context.input("changes").address).record.facts["full"]
    old_rows = pq.read_table(context.input("changes").path / CHANGES_FILE)["old"].to_numpy()
    _check_order(shards, context.input("changes").path)
    old = OldIndex(context.input("old").path) if (old_rows >= 0).any() else None
    corpus = MergedCorpus(shards, old, old_rows, context.settings.index.merge_views)
    rebuilt, edit = _rebuild_or_edit(corpus, full, context)
    passages = read_passages(context.input("passages").path) if with_search else ()
    search = write_search(folder, context.settings, passages) if with_search else {}
    write_index(folder, model, corpus, context.settings.index, context.events, search, edit)
    if edit and corpus.added.any():
        pq.write_table(pa.table({"added": corpus.added}), folder / ADDED_FILE)
    context.events.fact(rebuilt=rebuilt)


def refresh_index_with_search(context: StepContext) -> None:
    """Step: build the index of a new corpus as `refresh_index` does, which ranks as `settings.search` says."""
    refresh_index(context, with_search=True)


def _rebuild_or_edit(
    corpus: MergedCorpus, full: str, context: StepContext
) -> tuple[str, ApproximateBuilder | None]:
    """Returns why the index is rebuilt, or the builder that edits the old index into the new one.

    `full` says why the whole corpus had to be encoded, if it had to.
    """
    old, chosen = corpus.old, context.settings.index
    if old is None:
        return full or "no passage of the old index is kept", None
    if load_record(context.input("old").address).record.config.get("index", {}) != chosen.key_settings():
        return "other settings of index", None
    if chosen.kind == EXACT or not corpus.rows:  # without views there is no approximate index to build
        return "", None
    index: FaissObject = faiss.read_index(str(old.folder / INDEX_FILE))
    if not editable(index):
        return f"an index of kind {chosen.kind} cannot be edited", None
    factory = factory_string(chosen, corpus.rows, corpus.dim)
    lists = list_count(make_index(chosen, factory, corpus.dim))
    enough = corpus.rows >= (max(TRAINING_VIEWS, corpus.dim) if QUANTIZER.search(factory) else lists or 1)
    if enough and lists and old.header["lists"] >= RETRAIN_LISTS * lists:
        return f"{old.header['lists']:,} inverted lists are too many for {counted(corpus.rows, 'view')}", None
    found = None
    if old.header["sample"]:
        found = drift(index, corpus, np.repeat(corpus.added, corpus.view_counts), chosen.seed)
        if (reason := why_retrain(found)) and enough:
            return reason, None
    return "", partial(_edit, index, corpus, found, chosen)


def _edit(
    index: FaissObject, corpus: MergedCorpus, found: Drift | None, chosen: Index, blocks: BlocksOfViews
) -> tuple[FaissObject, JsonObject]:
    """Edits the old faiss `index`, whose drift is `found`, until it holds the new corpus's views; see `build`."""
    assert corpus.old is not None
    editing = IndexEditor(index, corpus.moved_view_rows(), corpus.rows)
    for rows, block in blocks:
        new = corpus.are_new(rows)
        editing.add(block[new].astype(np.float32), rows[new])
    editing.finish()
    entries = description(index, chosen, corpus.old.header["factory"], corpus.old.header["sample"])
    if found:
        entries |= {metric_names.DRIFT_ADDED: found.added, metric_names.DRIFT_ERROR: found.error}
    return index, entries


def _check_order(shards: Sequence[Embeddings], changes: Path) -> None:
    """Raises InputError unless the shards hold the passages of `changes`, in order."""
    expected = pa.concat_tables([pq.read_table(file, columns=KNOWN_BY) for file in shard_files(changes)])
    found = pa.concat_tables([shard.table.select(KNOWN_BY) for shard in shards])
    if not found.equals(expected):
        raise InputError(
            f"the embeddings hold {counted(found.num_rows, 'passage')}, which are not the {expected.num_rows:,} of {changes} in "
            "their order: give the embeddings of all shards of these changes, in order"
        )


# --- drift of a trained index ---------------------------------------------------------------------


def drift(index: FaissObject, corpus: MergedCorpus, added: np.ndarray, seed: int) -> Drift:
    """Returns the drift of a trained faiss `index` once it holds the views of `corpus`.

    `added` [rows] bool says which views were added since its training. The error shows how well its quantizers encode
    random views among these, compared with random views among the others. A refined index finds by its base alone.
    """
    share = float(added.mean()) if len(added) else 0.0
    if not 0 < share < 1:
        return Drift(share)
    while isinstance(index := faiss.downcast_index(index), faiss.IndexRefine):
        index = index.base_index

    def squared_errors(which: np.ndarray) -> np.ndarray:
        rows = np.flatnonzero(which)
        views = corpus.read_rows(rows[sampled_rows(len(rows), SAMPLED, seed)]).astype(np.float32)
        return np.square(index.sa_decode(index.sa_encode(views)).astype(np.float64) - views).sum(axis=1)

    try:
        new, old = squared_errors(added), squared_errors(~added)
    except RuntimeError:  # faiss cannot decode this kind
        return Drift(share)
    if not old.any():  # views that are stored as they are have no error
        return Drift(share)
    deviation = new.std(ddof=1) / math.sqrt(len(new)) if len(new) > 1 else math.inf
    return Drift(share, float(new.mean() / old.mean()), float(deviation / old.mean()))


def why_retrain(found: Drift) -> str:
    """Returns the limit that a drift exceeds, in words; empty where it exceeds none."""
    if found.added > RETRAIN_ADDED:
        share = f"{found.added:.1%} of the views were added since the index was trained"
        return f"{share}, more than {RETRAIN_ADDED:.0%}"
    if found.error is not None and found.error - 2 * found.deviation > RETRAIN_ERROR:
        error = f"{found.error:.2f} times the squared error of the others, more than {RETRAIN_ERROR:g}"
        return f"views added since the index was trained have {error}"
    return ""
