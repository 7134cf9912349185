"""After any sequence of additions, changes and removals an index is the one that would be built from nothing."""

import json
from itertools import product

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from multiview.artifacts.record import load_record
from multiview.index.faiss_library import faiss
from multiview.index.view_index import ViewIndex
from multiview.refresh import index as drift
from tests.fixtures.changing_vectors import (
    DIM,
    ChangingVectors,
    check_same,
    edits,
    filled_afresh,
    numbered,
    stored,
)

FEW = settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
TRAINED = ["IVF4,SQ8", "RR8,IVF4,RaBitQ", "PCA4,IVF2,SQ8", "SQ8"]
QUERIES = np.random.default_rng(5).normal(size=(7, DIM)).astype(np.float32)


@pytest.fixture(autouse=True)
def never_trained_again(monkeypatch):
    monkeypatch.setattr(drift, "RETRAIN_ADDED", 1.0)
    monkeypatch.setattr(drift, "RETRAIN_ERROR", 1e9)


def same_searches(index, rebuilt, k: int) -> None:
    found, expected = (ViewIndex.load(folder).search(QUERIES, k) for folder in (index, rebuilt))
    for name in ("passages", "scores", "winning_views"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


@FEW
@given(
    st.integers(0, 2**32),
    st.booleans(),
    st.lists(
        st.tuples(st.sampled_from(("dense", "hybrid")), st.sampled_from((None, None, 0.1))),
        min_size=4,
        max_size=4,
    ),
)
def test_an_exact_index_is_the_same_artifact(tmp_path_factory, seed, queries, modes):
    """All files, byte for byte, and so the digest; with generated queries too, and BM25 and merged views that come, stay
    and go."""
    vectors, rng = ChangingVectors(tmp_path_factory.mktemp("store")), np.random.default_rng(seed)
    model, corpus = vectors.model(), numbered(*range(30))
    given = [{"search": {"mode": mode}, "index": {"merge_views": merge}} for mode, merge in modes]
    index = vectors.index(model, vectors.passages(corpus), queries, **given[0])
    for (mode, merge), chosen in zip(modes[1:], given[1:], strict=True):
        corpus = edits(rng, corpus, 6)
        passages = vectors.passages(corpus, shards=int(rng.integers(1, 4)))
        index = vectors.refresh(index, model, passages, queries, **chosen)
        rebuilt = vectors.index(model, passages, queries, **chosen)
        edited, afresh = vectors.files(index), vectors.files(rebuilt)
        files = sorted(file.relative_to(afresh) for file in afresh.rglob("*") if file.is_file())
        assert (afresh / "bm25").is_dir() == (mode == "hybrid")
        assert files == sorted(file.relative_to(edited) for file in edited.rglob("*") if file.is_file())
        for file in files:
            assert (edited / file).read_bytes() == (afresh / file).read_bytes(), file
        assert index.digest == rebuilt.digest
        if merge is None:
            np.testing.assert_array_equal(
                ViewIndex.load(edited).views_of(0), stored({"first": next(iter(corpus.values()))})
            )
        same_searches(edited, afresh, 5)


@pytest.mark.parametrize("kind", TRAINED)
@FEW
@given(st.integers(0, 2**32))
def test_a_trained_index_is_what_its_quantizers_make_of_the_corpus(tmp_path_factory, kind, seed):
    """The faiss index and everything beside it, byte for byte; the header has how far it drifted."""
    vectors = ChangingVectors(tmp_path_factory.mktemp("store"), index={"kind": kind})
    rng, corpus = np.random.default_rng(seed), numbered(*range(200))
    model = vectors.model()
    index = vectors.index(model, vectors.passages(corpus))
    since: dict[str, str] = {}
    for _ in range(3):
        before, corpus = corpus, edits(rng, corpus, 40)
        passages = vectors.passages(corpus)
        index = vectors.refresh(index, model, passages)
        assert load_record(index.address)[1].facts["rebuilt"] == ""
        since = {i: t for i, t in corpus.items() if since.get(i) == t or before.get(i) != t}
        folder, rebuilt = vectors.files(index), vectors.files(vectors.index(model, passages))
        for name in ("passages.parquet", "views.f16"):
            assert (folder / name).read_bytes() == (rebuilt / name).read_bytes(), name
        written = faiss.read_index(str(folder / "index.faiss"))
        check_same(written, filled_afresh(written, stored(corpus)))
        header = json.loads((folder / "index.json").read_text())
        if since:
            assert header["drift_added"] == len(stored(since)) / len(stored(corpus))
            added = pq.read_table(folder / "added.parquet")["added"].to_pylist()
            assert [i for i, new in zip(corpus, added, strict=True) if new] == list(since)
        same_searches(
            folder, rebuilt, len(corpus)
        )  # where all passages are looked at, whatever the quantizers


def test_blocks_and_groups_of_rows_make_no_difference(tmp_path, monkeypatch):
    from multiview.index import merged_corpus

    monkeypatch.setattr(merged_corpus, "ROWS_PER_BLOCK", 7)
    monkeypatch.setattr(merged_corpus, "ROW_GROUP", 3)
    for number, (kind, merge) in enumerate(product(("exact", "IVF2,SQ8"), (None, 0.1))):
        vectors = ChangingVectors(tmp_path / str(number), index={"kind": kind, "merge_views": merge})
        model, rng = vectors.model(), np.random.default_rng(0)
        corpus = numbered(*range(100))
        index = vectors.index(model, vectors.passages(corpus), queries=True)
        passages = vectors.passages(edits(rng, corpus, 10))
        refreshed = vectors.refresh(index, model, passages, queries=True)
        assert load_record(refreshed.address)[1].facts["rebuilt"] == ""
        edited = vectors.files(refreshed)
        afresh = vectors.files(vectors.index(model, passages, queries=True))
        for name in (
            "passages.parquet",
            "queries.parquet",
            "views.f16",
        ):
            assert (edited / name).read_bytes() == (afresh / name).read_bytes(), name
