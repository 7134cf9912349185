"""Building an approximate index: trained on a sample, filled in the order of the views."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from multiview import metric_names
from multiview.config import Index, JsonObject
from multiview.errors import InputError, counted
from multiview.index.approximate import FaissObject
from multiview.index.approximate.editing import add, editable
from multiview.index.approximate.kinds import (
    SAMPLED_PER_LIST,
    SMALLEST_SAMPLE,
    default_probes,
    factory_string,
    faiss_message,
    list_count,
    make_index,
    train_index,
)
from multiview.index.faiss_library import threads
from multiview.index.merged_corpus import MergedCorpus
from multiview.index.stored_views import sampled_rows

EF_SEARCH = 128
"""Candidates of an hnsw search, in views; at least the number of views that it fetches."""


def build(
    corpus: MergedCorpus, settings: Index, blocks: Iterator[tuple[np.ndarray, np.ndarray]]
) -> tuple[FaissObject, JsonObject]:
    """Builds the faiss index over the views of a corpus, whose `blocks` it reads once; returns it with its `description`.

    The ids of the views are their rows. Memory holds the sample during training, then the index. Raises InputError for
    a kind that faiss does not know, too few views, or a damaged block.
    """
    views, dim = corpus.rows, corpus.dim
    if not views:
        raise InputError(f"index.kind={settings.kind}: there are no views to index; take index.kind=exact")
    factory = factory_string(settings, views, dim)
    index = make_index(settings, factory, dim)
    sampled = 0
    if not index.is_trained:
        rows = sampled_rows(
            views, max(SMALLEST_SAMPLE, SAMPLED_PER_LIST * (list_count(index) or 0)), settings.seed
        )
        sampled = len(rows)
        train_index(index, corpus.read_rows(rows, np.float32), settings)
    with threads(None if list_count(index) or editable(index) else 1):
        try:
            for _, block in blocks:
                add(index, block.astype(np.float32))
        except RuntimeError as error:
            raise InputError(
                f"index.kind={settings.kind}: faiss cannot add {counted(views, 'view')} of width {dim}: "
                f"{faiss_message(error)}; take another kind"
            ) from error
    return index, description(index, settings, factory, sampled)


def description(index: FaissObject, settings: Index, factory: str, sampled: int) -> JsonObject:
    """The header entries of a new approximate index: its kind, its search parameters, and where it was trained, no drift."""
    drift = {metric_names.DRIFT_ADDED: 0.0, metric_names.DRIFT_ERROR: None} if sampled else {}
    return {
        "exact": False,
        "factory": factory,
        "sample": sampled,
        "seed": settings.seed,
        "lists": list_count(index),
        "probes": default_probes(index),
        "ef_search": EF_SEARCH,
        "rerank": settings.rerank,
        "on_disk": False,
        **drift,
    }
