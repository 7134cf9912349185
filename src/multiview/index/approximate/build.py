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
from multiview.index.faiss_library import all_of_faiss, faiss, threads
from multiview.index.merged_corpus import MergedCorpus
from multiview.index.stored_views import sampled_rows

EF_SEARCH = 128
"""Candidates of an hnsw search, in views; at least the number of views that it fetches."""


def build(
    corpus: MergedCorpus, settings: Index, blocks: Iterator[tuple[np.ndarray, np.ndarray]]
) -> tuple[FaissObject, JsonObject]:
    """Builds the faiss index over the views of a corpus, whose `blocks` it reads once; returns it with its `description`.

    The ids of the views are their rows. Memory holds the sample during training, then the index. Raises InputError for
    a kind that faiss does not know, too few views, a missing device, or a damaged block.
    """
    views, dim = corpus.rows, corpus.dim
    if not views:
        raise InputError(f"index.kind={settings.kind}: there are no views to index; take index.kind=exact")
    factory = factory_string(settings, views, dim)
    index, gpu = make_index(settings, factory, dim), _gpu(settings.device)
    sampled = 0
    if not index.is_trained:
        rows = sampled_rows(
            views, max(SMALLEST_SAMPLE, SAMPLED_PER_LIST * (list_count(index) or 0)), settings.seed
        )
        sampled = len(rows)
        _train(index, corpus.read_rows(rows, np.float32), settings, gpu)
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


def _gpu(device: str) -> bool:
    """Whether faiss sees a GPU and `device` lets it be used. Raises InputError for an unknown or missing device."""
    has_gpu = faiss.get_num_gpus() > 0
    if device == "cuda" and not has_gpu:
        raise InputError(
            "index.device=cuda: faiss sees no GPU; install faiss-gpu on a machine with a GPU, or set index.device=auto"
        )
    if device not in ("auto", "cpu", "cuda"):
        raise InputError(f"index.device={device}: it is cpu, cuda or auto")
    return has_gpu and device != "cpu"


def _train(index: FaissObject, sample: np.ndarray, settings: Index, gpu: bool) -> None:
    """Trains `index`; on a GPU, the k-means of its inverted lists, if it has any, assigns views to centroids there."""
    ivf: FaissObject = faiss.try_extract_index_ivf(index)
    if not gpu or ivf is None:
        train_index(index, sample, settings)
        return
    # Named here, because faiss holds no reference to it.
    assigner = all_of_faiss.index_cpu_to_all_gpus(faiss.IndexFlatIP(ivf.d))
    ivf.clustering_index = assigner
    train_index(index, sample, settings)
    ivf.clustering_index = None
