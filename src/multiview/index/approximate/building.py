"""Building an approximate index: trained on a sample, filled shard by shard."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from multiview import metric_names
from multiview.config import Index
from multiview.errors import InputError
from multiview.index.approximate.adding import add
from multiview.index.approximate.kinds import (
    can_merge,
    default_probes,
    default_sample,
    factory_string,
    list_count,
    make_index,
    train_index,
)
from multiview.index.faiss_library import faiss, threads
from multiview.index.stored_views import ViewBlocks, equal_blocks, sampled_rows
from multiview.steps.events import Events

ADDED_AT_ONCE = 4096
"""Views that are added together, whatever the shards."""


def build(
    shards: Sequence[ViewBlocks], settings: Index, keep: Callable[[np.ndarray], Any], events: Events
) -> tuple[Any, dict[str, Any]]:
    """The faiss index over the views of all shards, whose ids are their rows; and what it was built by.

    `keep` gets each block [n, dim] float16 as it is added, in order. In memory are the sample while it trains, then
    the index and a shard of it. Raises InputError for a kind that faiss does not know, too few views, a device that
    is not there, and a damaged block.
    """
    views, dim = sum(shard.rows for shard in shards), shards[0].dim
    if not views:
        raise InputError(f"index.kind={settings.kind}: there are no views to index; take index.kind=exact")
    factory = factory_string(settings, views, dim)
    index, gpu = make_index(settings, factory, dim), _gpu(settings.device)
    sampled = 0
    if not index.is_trained:
        sample = sample_views(shards, settings.sample or default_sample(index), settings.seed)
        sampled = len(sample)
        with _clustering_on(gpu, index):
            train_index(index, sample, settings, views)
    with threads(1 if settings.one_thread and not list_count(index) and not can_merge(index) else None):
        _fill(index, shards, keep, gpu, events)
    return index, description(index, settings, factory, sampled)


def description(index: Any, settings: Index, factory: str, sampled: int) -> dict[str, Any]:
    """What an approximate index is and how it is searched, for its header; and that it has not drifted from what
    it was trained on, if it was."""
    drifted = {metric_names.DRIFT_ADDED: 0.0, metric_names.DRIFT_ERROR: None} if sampled else {}
    return {
        "exact": False,
        "factory": factory,
        "sample": sampled,
        "seed": settings.seed,
        "lists": list_count(index),
        "probes": settings.probes or default_probes(index),
        "ef_search": settings.ef_search,
        "rerank": settings.rerank,
        "on_disk": settings.on_disk,
        **drifted,
    }


def sample_views(shards: Sequence[ViewBlocks], count: int, seed: int) -> np.ndarray:
    """`count` random views of all shards, in order of their rows [count, dim] float32; all where there are no more.

    The same whatever the shards. Blocks that hold none are not read.
    """
    total = sum(shard.rows for shard in shards)
    rows = sampled_rows(total, count, seed)
    sample = np.empty((len(rows), shards[0].dim), np.float32)
    first = 0
    for shard in shards:
        for block in range(shard.blocks):
            start = first + block * shard.rows_per_block
            stop = min(start + shard.rows_per_block, first + shard.rows)
            in_block = slice(*np.searchsorted(rows, [start, stop]))
            if in_block.start < in_block.stop:
                sample[in_block] = shard.read_block(block)[rows[in_block] - start]
        first += shard.rows
    return sample


def _fill(
    index: Any, shards: Sequence[ViewBlocks], keep: Callable[[np.ndarray], Any], gpu: bool, events: Events
) -> None:
    """Add all views in order, in blocks of one size however they are sharded; on a GPU shard by shard, each an index
    that is then merged, where the kind can be."""
    by_shard = gpu and can_merge(index)
    empty = faiss.clone_index(index) if by_shard else None
    total, done = sum(shard.rows for shard in shards), 0
    for sources in [[shard] for shard in shards] if by_shard else [shards]:
        part = _to_gpu(empty, events) if by_shard else index
        for block in equal_blocks(sources, ADDED_AT_ONCE):
            keep(block)
            add(part, block.astype(np.float32))
            done += len(block)
            events.progress(done, total, "views")
        if by_shard:
            # Lists carry their views' ids, which must go on counting; other kinds count by themselves.
            index.merge_from(faiss.index_gpu_to_cpu(part), index.ntotal if list_count(index) else 0)


def _gpu(device: str) -> bool:
    """Whether faiss sees a GPU, and is to use it."""
    found = faiss.get_num_gpus() > 0
    if device == "cuda" and not found:
        raise InputError(
            "index.device=cuda: faiss sees no GPU; install faiss-gpu where one is, or set index.device=auto"
        )
    if device not in ("auto", "cpu", "cuda"):
        raise InputError(f"index.device={device}: it is cpu, cuda or auto")
    return found and device != "cpu"


def _to_gpu(index: Any, events: Events) -> Any:
    """A copy of `index` on a GPU; one here, with a warning, where faiss has none of its kind there."""
    on_gpu: Any = faiss  # what follows is in faiss-gpu alone
    try:
        return on_gpu.index_cpu_to_gpu(on_gpu.StandardGpuResources(), 0, index)
    except RuntimeError:
        events.warning("faiss has no index of this kind on a GPU: views are added on the CPU")
        return faiss.clone_index(index)


@contextlib.contextmanager
def _clustering_on(gpu: bool, index: Any) -> Iterator[None]:
    """Have the k-means of the inverted lists of `index`, if it has some, look for centroids on a GPU."""
    ivf: Any = faiss.try_extract_index_ivf(index)
    if not gpu or ivf is None:
        yield
        return
    on_gpu: Any = faiss
    ivf.clustering_index = assigning = on_gpu.index_cpu_to_all_gpus(faiss.IndexFlatIP(ivf.d))
    yield
    ivf.clustering_index = None
    del assigning  # it had to live until now: faiss holds no reference
