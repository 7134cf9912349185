"""An index that was edited is the one that its quantizers give of all views in order."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.index.approximate.editing import IndexEditor, add, editable
from multiview.index.faiss_library import faiss
from tests.fixtures.changing_vectors import check_same, filled_afresh

DIM = 16
EDITABLE = [
    *("IVF8,SQ8", "RR16,IVF8,RaBitQ", "OPQ4,IVF4,PQ4x4", "PCA8,IVF4,SQ8", "IVF8_HNSW8,SQ8"),
    *("IVF4,Flat,Refine(SQ8)", "PQ4x4", "PCA8,SQ8", "SQfp16", "Flat"),
]
FIXED = ["HNSW8,SQ8", "IVF4,PQ8x4fs", "PQ8x4fs"]


@pytest.fixture(scope="module")
def views() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(600, DIM)).astype(np.float16).astype(np.float32)


@pytest.fixture(scope="module")
def trained(views) -> dict[str, Any]:
    """An empty index of each kind."""
    found = {}
    for kind in EDITABLE + FIXED:
        found[kind] = faiss.index_factory(DIM, kind, faiss.METRIC_INNER_PRODUCT)
        found[kind].train(views)
    return found


@pytest.mark.parametrize("kind", EDITABLE)
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 300), st.integers(0, 1), st.integers(0, 200), st.integers(1, 90), st.integers(0, 2**32))
def test_as_if_filled_in_order(trained, views, kind, old, share, fresh, block, seed):
    rng = np.random.default_rng(seed)
    kept = rng.permutation(old)[: round(share * rng.random() * old)]
    places = rng.permutation(len(kept) + fresh)
    rows = np.full(old, -1)
    rows[kept] = places[: len(kept)]
    new_rows = np.sort(places[len(kept) :])
    wanted = np.empty((len(places), DIM), np.float32)
    wanted[rows[kept]], wanted[new_rows] = views[kept], views[300 : 300 + fresh]

    index = faiss.clone_index(trained[kind])
    add(index, views[:old])
    assert editable(index)
    editing = IndexEditor(index, rows, len(places))
    for start in range(0, fresh, block):
        part = slice(start, start + block)
        editing.add(views[300 : 300 + fresh][part], new_rows[part])
    editing.finish()
    if len(places):
        check_same(index, filled_afresh(index, wanted))


@pytest.mark.parametrize("kind", FIXED)
def test_graphs_and_interleaved_codes_are_refused(trained, kind):
    assert not editable(trained[kind])
    with pytest.raises(ValueError, match="cannot be edited"):
        IndexEditor(trained[kind], np.empty(0, np.int64), 0)
