"""Kinds of approximate index: how their parts are sized, trained on a sample, and filled with views in order."""

import contextlib
import math
import re
from collections.abc import Iterator

import numpy as np

from multiview import metric_names
from multiview.config import Index, JsonObject
from multiview.errors import InputError, counted
from multiview.index.approximate import EXACT, FACTORY, FaissObject
from multiview.index.approximate.editing import add, editable
from multiview.index.faiss_library import faiss, list_count, threads
from multiview.index.merged_corpus import MergedCorpus
from multiview.index.stored_views import sampled_rows

EF_SEARCH = 128
"""Candidates of an hnsw search, in views; at least the number of views that it fetches."""
VIEWS_PER_LIST = 39
"""Fewest views that train an inverted list; with fewer, faiss warns."""
SAMPLED_PER_LIST = 64
"""Views that train a list."""
SMALLEST_SAMPLE = 65_536
"""Views that train a product quantizer: 256 for each of its 256 centroids, the most that faiss's k-means uses."""
FEWEST_PROBES = 8
ANY_WIDTH = 5760
"""A width that most sizes of parts divide, for checking factory strings before a model's width is known."""


def factory_string(settings: Index, view_count: int, dim: int) -> str:
    """The faiss factory string of `settings` for `view_count` views of width `dim`."""
    lists = default_lists(view_count)
    return FACTORY.get(settings.kind, settings.kind).replace("{lists}", str(lists)).replace("{dim}", str(dim))


def default_lists(view_count: int) -> int:
    """Number of inverted lists: 4 √views, and no more than there are views to train with."""
    return max(1, min(round(4 * math.sqrt(view_count)), view_count // VIEWS_PER_LIST))


def default_probes(index: FaissObject) -> int | None:
    """Number of inverted lists that a search probes; none where there are no lists."""
    lists = list_count(index)
    return lists and min(lists, max(FEWEST_PROBES, math.ceil(math.sqrt(lists))))


def make_index(settings: Index, factory: str, dim: int) -> FaissObject:
    """An empty faiss index for inner products. Raises InputError, with faiss's words, where `factory` is no factory string."""
    ways = f"it is one of {', '.join((EXACT, *FACTORY))}, or a faiss factory string"
    with _in_faiss_words(settings, "", ways):
        index: FaissObject = faiss.index_factory(dim, factory, faiss.METRIC_INNER_PRODUCT)
    if ivf := faiss.try_extract_index_ivf(index):
        ivf.cp.seed = settings.seed
    return index


@contextlib.contextmanager
def _in_faiss_words(settings: Index, problem: str, way_out: str) -> Iterator[None]:
    """Turns an error of faiss in the block into an InputError, without the place in faiss's source that raised it."""
    try:
        yield
    except RuntimeError as error:
        words = re.sub(r"^Error in .* at \S+:\d+: (Error: '.*' failed: ?)?", "", " ".join(str(error).split()))
        raise InputError(f"index.kind={settings.kind}: {problem}faiss: {words}; {way_out}") from error


def check_factory(settings: Index) -> None:
    """Raises InputError for a factory string that faiss cannot parse for any number and width of views, or that has ids
    of its own."""
    if re.search(r"\bIDMap2?\b", settings.kind):
        raise InputError(f"index.kind={settings.kind}: leave IDMap out; the id of a view is always its row")
    factory = factory_string(settings, SMALLEST_SAMPLE, ANY_WIDTH)
    try:
        make_index(settings, factory, ANY_WIDTH)
    except InputError as error:
        if "could not parse" in str(error):
            raise


def train_index(index: FaissObject, sample: np.ndarray, settings: Index) -> None:
    """Trains `index` on `sample` [n, dim] float32. Raises InputError, with faiss's words, where the sample is too small."""
    problem = f"it cannot be trained with {counted(len(sample), 'view')}: "
    way_out = "take another kind, or index.kind=exact, which needs no training"
    with _in_faiss_words(settings, problem, way_out):
        index.train(sample)


def build(
    corpus: MergedCorpus, settings: Index, blocks: Iterator[tuple[np.ndarray, np.ndarray]]
) -> tuple[FaissObject, JsonObject]:
    """Builds the faiss index over the views of a corpus, whose `blocks` it reads once; returns it with its `description`.

    Memory holds the sample during training, then the index. Raises InputError for an unknown kind or too few views.
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
    problem = f"faiss cannot add {counted(views, 'view')} of width {dim}: "
    with (
        threads(None if list_count(index) or editable(index) else 1),
        _in_faiss_words(settings, problem, "take another kind"),
    ):
        for _, block in blocks:
            add(index, block.astype(np.float32))
    return index, description(index, settings, factory, sampled)


def description(index: FaissObject, settings: Index, factory: str, sampled: int) -> JsonObject:
    """The header entries of a new approximate index: its kind; the effort of a search, which may be changed without
    building it again, and has no `probes` where there are no lists; and, if it was trained, zero drift."""
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
