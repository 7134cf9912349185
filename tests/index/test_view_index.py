"""Embeddings are checked block by block; the index is built from them and finds passages."""

import hashlib
import json
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from multiview.config import Config
from multiview.data.passages import content_hash
from multiview.errors import InputError
from multiview.index import stored_views, view_index
from multiview.index.view_index import ViewIndex
from multiview.steps.table import STEPS
from tests.fixtures.analysed_model import hand_index, passage_scores
from tests.fixtures.artifacts import write_embeddings, write_index

A = [np.array([[1, 0], [0, 1]]), np.array([[2, 0]])]
B = [np.array([[0, 3], [0, -1], [5, 5]])]


def build(tmp_path, *shards, name="index", **settings):
    return tmp_path / name, write_index(tmp_path / name, *shards, **settings)


@pytest.fixture
def shards(tmp_path):
    return write_embeddings(tmp_path / "a", ["p0", "p1"], A), write_embeddings(tmp_path / "b", ["p2"], B)


def test_index_finds_passages_of_all_shards(tmp_path, shards):
    folder, events = build(tmp_path, *shards)
    index = ViewIndex.load(folder)
    assert len(index) == 3
    top = index.search(np.array([[1.0, 1.0], [-1.0, 0.0]]), 2)
    # Against (1, 1): p0 scores 1 and 1, p1 2, p2 3, -1 and 10. Against (-1, 0): p0 -1 and 0, p1 -2,
    # p2 0, 0 and -5: p0 and p2 tie, and so do p2's first two views.
    assert [[index.passage_id(n) for n in row] for row in top.passages] == [["p2", "p1"], ["p0", "p2"]]
    assert top.scores.tolist() == [[10.0, 2.0], [0.0, 0.0]]
    assert top.winning_views.tolist() == [[2, 0], [1, 0]]
    assert index.view_scores(np.array([1.0, 1.0]), 2).tolist() == [3.0, -1.0, 10.0]
    assert pq.read_table(folder / "passages.parquet").to_pylist() == [
        {"id": "p0", "content_hash": content_hash("", "p0"), "offset": 0, "views": 2},
        {"id": "p1", "content_hash": content_hash("", "p1"), "offset": 2, "views": 1},
        {"id": "p2", "content_hash": content_hash("", "p2"), "offset": 3, "views": 3},
    ]
    header = json.loads((folder / "index.json").read_text())
    assert header["model"] == "model"
    lines = [f"{id_}\0{content_hash('', id_)}\n" for id_ in ("p0", "p1", "p2")]
    assert header["corpus"] == hashlib.sha256("".join(lines).encode()).hexdigest()
    assert (header["passages"], header["views"], header["dim"]) == (3, 6, 2)
    assert events.facts["views"] == 6 and ("views_per_passage", 2.0, None) in events.metrics
    assert events.steps[-1] == (6, 6, "views")


def test_a_result_is_no_wider_than_the_index(tmp_path, shards):
    """However deep a search may go, in memory for as many hits as there can be."""
    index = ViewIndex.load(build(tmp_path, *shards)[0])
    queries = np.array([[1.0, 1.0], [-1.0, 0.0]])
    whole, deep = (index.search(queries, k) for k in (3, 10**6))
    for name in ("passages", "scores", "winning_views"):
        np.testing.assert_array_equal(getattr(deep, name), getattr(whole, name))
    (first,) = index.search_views([(2, 3)], queries, 10**6)
    assert first.passages.tolist() == [[2, -1, -1]] * 2
    with pytest.raises(ValueError, match="k must be 1 or more"):
        index.search(queries, 0)


def test_equal_input_gives_equal_files_whatever_the_shards(tmp_path, shards):
    one, _ = build(tmp_path, *shards, name="one")
    two, _ = build(tmp_path, write_embeddings(tmp_path / "ab", ["p0", "p1", "p2"], [*A, *B]), name="two")
    for name in ("views.f16", "passages.parquet", "index.json"):
        assert (one / name).read_bytes() == (two / name).read_bytes()


def test_an_exact_index_stays_what_it_is(tmp_path, shards):
    """Its key and its bytes, which champions and caches hold."""
    folder, _ = build(tmp_path, *shards)
    digests = [
        hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in ("views.f16", "index.json")
    ]
    assert [digest[:16] for digest in digests] == ["4b5c18ee5e17ec29", "d4fcf39faf9db5d9"]
    assert sorted(file.name for file in folder.iterdir()) == ["index.json", "passages.parquet", "views.f16"]
    step = STEPS["index"]

    def key(**index) -> str:
        config = Config.model_validate({"index": index})
        digests = {"model": "m", "passages": "p", "embeddings": ["a", "b"]}
        return step.key(step.parse(step.configure(config)), digests, {})

    assert key() == "bdbf3c7fe89fa4a728218b8353666cb4"
    assert len({key(), key(kind="compact"), key(kind="compact", seed=1)}) == 3


def test_shards_that_do_not_belong_together_are_refused(tmp_path, shards):
    other = write_embeddings(tmp_path / "other", ["p9"], B, model="another")
    with pytest.raises(InputError, match="of model another, but the index is to be of model model"):
        build(tmp_path, shards[0], other, name="i1")
    with pytest.raises(InputError, match="'p0' is in more than one place"):
        build(tmp_path, shards[0], shards[1], shards[0], name="i3")
    with pytest.raises(InputError, match="no embeddings"):
        build(tmp_path, name="i4")


@pytest.mark.parametrize("at_once", [None, 9])
def test_given_passages_score_the_max_of_their_views_as_a_search_has_it(at_once, monkeypatch):
    """Whatever is scored beside a pair and at once, also where one question has many passages beside the others."""
    for module in (stored_views, view_index) if at_once else ():
        monkeypatch.setattr(module, "PAIRS_AT_ONCE", at_once)
        monkeypatch.setattr(stored_views, "SCORED_AT_ONCE", 5)
    rng = np.random.default_rng(0)
    views = [rng.normal(size=(n, 3)) - 2 for n in (2, 0, 1, 5, 0, 3, 0)]  # with none between and at the end
    index = hand_index(views, [f"p{i}" for i in range(7)])
    queries = rng.normal(size=(30, 3)).astype(np.float32) * 40
    numbers = np.full((30, 20), -1)
    numbers[:, :9], numbers[20:, 1:], numbers[7] = rng.integers(-1, 7, (30, 9)), -1, rng.integers(0, 7, 20)
    scores = passage_scores(index, queries, numbers)
    stored = [v.astype(np.float16).astype(np.float64) for v in views]
    for query, row, got in zip(queries.astype(np.float64), numbers, scores, strict=True):
        # -1 is nobody, not the last passage; a negative max is no 0.
        expected = [(stored[n] @ query).max() if n >= 0 and len(stored[n]) else -np.inf for n in row.tolist()]
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-5)
    assert (scores[np.isfinite(scores)] < 0).any()
    top = index.search(queries, 4)
    np.testing.assert_allclose(passage_scores(index, queries, top.passages), top.scores, rtol=1e-5, atol=1e-4)
    pairs = zip(queries, numbers, strict=True)
    alone = [[passage_scores(index, q[None], np.array([[n]]))[0, 0] for n in row] for q, row in pairs]
    np.testing.assert_array_equal(alone, scores, "to the bit, whatever is asked for beside it")
    assert passage_scores(index, queries[:0], numbers[:0]).shape == (0, 20)


def test_questions_of_another_model_are_refused(tmp_path, shards):
    index = ViewIndex.load(build(tmp_path, *shards)[0])
    index.check_model("model")
    with pytest.raises(InputError, match="model model, but the questions are of model another"):
        index.check_model("another")
    with pytest.raises(InputError, match="2 wide"):
        index.search(np.ones((1, 3)), 1)


def test_an_index_whose_files_do_not_fit_together_is_refused(tmp_path, shards):
    folder, _ = build(tmp_path, *shards)
    one, _ = build(tmp_path, shards[0], name="one")
    (folder / "views.f16").write_bytes((one / "views.f16").read_bytes())
    with pytest.raises(
        InputError, match=r"number of views: 6 by index\.json, 6 by passages\.parquet, 3 by views\.f16; "
    ):
        ViewIndex.load(folder)
    (folder / "passages.parquet").write_bytes((one / "passages.parquet").read_bytes())
    with pytest.raises(InputError, match=r"number of views: 6 by index\.json, 3 by passages\.parquet, "):
        ViewIndex.load(folder)


def test_an_index_and_embeddings_of_an_earlier_version_are_read(tmp_path, shards):
    """Their headers had digests of blocks of views."""
    folder, _ = build(tmp_path, *shards)
    whole = (folder / "index.json").read_bytes()
    for header in (folder / "index.json", *(shard / "embeddings.json" for shard in shards)):
        older = {"rows_per_block": 4, "block_sha256": ["0" * 64, "1" * 64], "environment": {}}
        header.write_text(json.dumps(json.loads(header.read_text()) | older))
    index = ViewIndex.load(folder)
    assert index.search(np.array([[1.0, 1.0]]), 1).scores.tolist() == [[10.0]]
    again, _ = build(tmp_path, *shards, name="again")
    assert (again / "index.json").read_bytes() == whole


def test_an_exact_index_is_built_and_searched_without_faiss(tmp_path, shards, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    monkeypatch.delitem(sys.modules, "multiview.index.faiss_library", raising=False)
    folder, _ = build(tmp_path, *shards)
    assert ViewIndex.load(folder).search(np.array([[1.0, 1.0]]), 1).scores.tolist() == [[10.0]]
