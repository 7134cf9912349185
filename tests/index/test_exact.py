"""Top passages over views equal the plain formula: max over a passage's views, ties to the smaller id."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.index import exact, kernels, products
from multiview.index.exact import top_passages_by, view_norms
from multiview.index.products import ALL_VIEWS
from multiview.index.ranking import TopPassages, tie_order


def by_brute_force(views, counts, ids, queries, k):
    """[(id, score, view), …] of each question, from every view's score in float64."""
    rankings = []
    for query in queries.astype(np.float64):
        rows, start = [], 0
        for id_, count in zip(ids, counts, strict=True):
            scores = views[start : start + count].astype(np.float64) @ query
            rows.append((id_, float(scores.max()), int(scores.argmax())))
            start += count
        rankings.append(sorted(rows, key=lambda row: (-row[1], row[0]))[:k])
    return rankings


def as_rows(top: TopPassages, ids):
    return [
        [
            (ids[number], float(score), int(view))
            for number, score, view in zip(top.passages[q], top.scores[q], top.winning_views[q], strict=True)
            if number >= 0
        ]
        for q in range(len(top.passages))
    ]


def small_blocks(patch: pytest.MonkeyPatch, size: int) -> None:
    """Has so many bytes multiplied and ranked at once, and proposed views scored after so many."""
    patch.setattr(exact, "SCORED_BYTES", size)
    for name in ("BLOCK_BYTES", "STREAMED_BYTES", "FEW_BYTES", "GPU_BLOCK_BYTES"):
        patch.setattr(kernels, name, size)
    for name in ("SCORES_BYTES", "GPU_SCORES_BYTES"):
        patch.setattr(products, name, size)


@st.composite
def collections(draw):
    """Vectors of few small integers: products are exact in float32 and most scores tie."""
    dim = draw(st.integers(1, 3))
    counts = draw(st.lists(st.sampled_from([1, 2, 3, 10]), min_size=1, max_size=25))
    largest = draw(st.integers(0, 3))
    negative = draw(st.booleans())
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    low = -largest - 1 if negative else -largest
    views = rng.integers(low, 0 if negative else largest + 1, (sum(counts), dim)).astype(np.float32)
    queries = rng.integers(0 if negative else -2, 3, (draw(st.sampled_from([1, 3, 40])), dim)).astype(
        np.float32
    )
    ids = [str(number) for number in rng.permutation(len(counts))]  # "10" < "9"
    k = draw(st.integers(1, 30))
    return views, counts, ids, queries, k


@settings(max_examples=200, deadline=None)
@given(
    collections(),
    st.sampled_from([4, 60, 1 << 23]),
    st.sampled_from([1, 256]),
    st.booleans(),
)
def test_equals_brute_force_among_heavy_ties(collection, block_bytes, questions_at_once, with_numpy):
    """However many views and questions are multiplied and ranked at once, with NumPy as on a CPU or torch as on a GPU."""
    views, counts, ids, queries, k = collection
    offsets = np.cumsum(counts) - counts
    with pytest.MonkeyPatch.context() as patch:
        small_blocks(patch, block_bytes)
        patch.setattr(products, "with_numpy", lambda device: with_numpy)
        patch.setattr(exact, "QUESTIONS_AT_ONCE", questions_at_once)
        patch.setattr(exact, "PROPOSED_AT_ONCE", 10)
        top = top_passages_by(views, offsets, tie_order(pa.array(ids)), queries, k, [ALL_VIEWS])[0]
    assert as_rows(top, ids) == by_brute_force(views, counts, ids, queries, k)


@settings(max_examples=50, deadline=None)
@given(collections(), st.integers(1, 12), st.sampled_from([1, 60, 1 << 23]))
def test_ranges_of_views_are_searched_as_if_there_were_no_others(collection, first, hits_at_once):
    """However many hits of all of them a pass looks for."""
    views, counts, ids, queries, k = collection
    offsets = np.cumsum(counts) - counts
    ranges = [(0, first), (first - 1, first), (first, None)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "HITS_AT_ONCE", hits_at_once)
        tops = top_passages_by(views, offsets, tie_order(pa.array(ids)), queries, k, ranges)
    for (low, high), top in zip(ranges, tops, strict=True):
        split = np.split(views, offsets[1:])
        chosen = [part[low:high] for part in split]
        kept = [row for row, part in enumerate(chosen) if len(part)]
        part_counts = [len(chosen[row]) for row in kept]
        rows = np.concatenate([chosen[row] for row in kept]) if kept else views[:0]
        expected = by_brute_force(rows, part_counts, [ids[row] for row in kept], queries, k)
        expected = [[(id_, score, view + low) for id_, score, view in ranking] for ranking in expected]
        assert as_rows(top, ids) == expected


@settings(max_examples=200, deadline=None)
@given(collections(), st.sampled_from([0.0, 0.05, 0.5, 1.0]), st.sampled_from([4, 60, 1 << 23]))
def test_passages_among_others_are_searched_as_if_there_were_no_others(collection, share, block_bytes):
    """Which of them may be found is decided by chance; blocks without any such passage are not multiplied."""
    views, counts, ids, queries, k = collection
    offsets = np.cumsum(counts) - counts
    among = np.random.default_rng(len(views)).random(len(ids)) < share
    with pytest.MonkeyPatch.context() as patch:
        small_blocks(patch, block_bytes)
        top = top_passages_by(views, offsets, tie_order(pa.array(ids)), queries, k, [ALL_VIEWS], among=among)[
            0
        ]
    kept = np.flatnonzero(among)
    parts = np.split(views, offsets[1:])
    rows = np.concatenate([parts[row] for row in kept]) if len(kept) else views[:0]
    part_counts, part_ids = [counts[row] for row in kept], [ids[row] for row in kept]
    assert as_rows(top, ids) == by_brute_force(rows, part_counts, part_ids, queries, k)


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_products_that_float32_cannot_tell_apart_are_ranked_as_in_float64(scale):
    """Views that differ in tiny values alone, beside large ones that cancel out: in float32 their order is chance."""
    rng = np.random.default_rng(0)
    base = rng.standard_normal(384).astype(np.float16)
    views = np.tile(base, (600, 1))
    views[:, :16] = rng.integers(0, 1 << 10, (600, 16)) * 2.0**-24
    base[:16] = 0
    queries = (scale * rng.standard_normal((5, 384))).astype(np.float32)
    queries -= (queries @ base.astype(np.float32) / np.square(base.astype(np.float32)).sum())[:, None] * base
    counts, ids = [2] * 300, [str(number) for number in range(300)]
    # Summed one after another, which rounds alike on every processor.
    summed = np.cumsum(queries[:, None] * views.astype(np.float32), axis=2, dtype=np.float32)
    in_float32 = summed[:, :, -1].reshape(5, 300, 2).max(axis=2)
    expected = by_brute_force(views, counts, ids, queries, 40)
    found = as_rows(
        top_passages_by(views, np.arange(0, 600, 2), tie_order(pa.array(ids)), queries, 40, [ALL_VIEWS])[0],
        ids,
    )
    for ranking, wanted in zip(found, expected, strict=True):
        assert [row[0] for row in ranking] == [row[0] for row in wanted]
        assert [row[1] for row in ranking] == [np.float32(row[1]) for row in wanted]
    plain = [[ids[row] for row in np.argsort(-scores, kind="stable")[:40]] for scores in in_float32]
    assert plain != [[row[0] for row in ranking] for ranking in expected]


def test_a_question_is_answered_alike_alone_and_among_others():
    rng = np.random.default_rng(0)
    views, offsets = rng.standard_normal((900, 32)).astype(np.float16), np.arange(0, 900, 3)
    queries = rng.standard_normal((70, 32)).astype(np.float32)
    order = tie_order(pa.array([str(number) for number in range(300)]))
    together = top_passages_by(views, offsets, order, queries, 10, [ALL_VIEWS])[0]
    for row in (0, 33, 69):
        alone = top_passages_by(views, offsets, order, queries[row : row + 1], 10, [ALL_VIEWS])[0]
        np.testing.assert_array_equal(alone.scores[0], together.scores[row], "to the bit")
        np.testing.assert_array_equal(alone.passages[0], together.passages[row])


@pytest.mark.parametrize("k", [1, 20, 400])
def test_torch_finds_what_numpy_finds(k, monkeypatch):
    """To the bit: the code of a GPU, run on the CPU."""
    rng = np.random.default_rng(0)
    views, offsets = rng.standard_normal((3000, 48)).astype(np.float16), np.arange(0, 3000, 6)
    views[1200:1800] = views[:600]
    queries = rng.standard_normal((90, 48)).astype(np.float32)
    args = views, offsets, np.arange(500)[::-1], queries, k, [(0, None), (2, 4)]
    monkeypatch.setattr(kernels, "BLOCK_BYTES", 1 << 16)
    expected = top_passages_by(*args)
    monkeypatch.setattr(products, "GPU_SCORES_BYTES", 1 << 17)
    monkeypatch.setattr(products, "with_numpy", lambda device: False)
    torch.set_float32_matmul_precision("high")
    try:
        found = top_passages_by(*args)
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.passages, other.passages)
        np.testing.assert_array_equal(one.scores, other.scores)
        np.testing.assert_array_equal(one.winning_views, other.winning_views)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_gpu_finds_what_the_cpu_finds():
    rng = np.random.default_rng(0)
    views, offsets = rng.standard_normal((30_000, 384)).astype(np.float16), np.arange(0, 30_000, 6)
    queries = rng.standard_normal((90, 384)).astype(np.float32)
    args = views, offsets, np.arange(5000), queries, 100
    found, expected = (
        top_passages_by(*args, [ALL_VIEWS], device="cuda")[0],
        top_passages_by(*args, [ALL_VIEWS])[0],
    )
    np.testing.assert_array_equal(found.passages, expected.passages)
    np.testing.assert_array_equal(found.scores, expected.scores)


def test_views_may_be_mapped_from_a_file_and_their_norms_be_given(tmp_path):
    views = np.random.default_rng(0).standard_normal((50, 8)).astype(np.float16)
    views.tofile(tmp_path / "views.f16")
    mapped = np.memmap(tmp_path / "views.f16", np.float16, "r", shape=views.shape)
    rounded = torch.from_numpy(views).bfloat16().double().numpy()
    for norm, vectors in zip(view_norms(mapped), (views, views - rounded), strict=True):
        assert norm == pytest.approx(np.linalg.norm(vectors.astype(np.float64), axis=1).max(), rel=1e-12)
    args = np.arange(50), np.arange(50), np.ones((2, 8), np.float32), 5
    one, other = (
        top_passages_by(mapped, *args, [ALL_VIEWS], norms=view_norms(views))[0],
        top_passages_by(views, *args, [ALL_VIEWS])[0],
    )
    np.testing.assert_array_equal(one.passages, other.passages)
    np.testing.assert_array_equal(one.scores, other.scores)


@pytest.mark.parametrize("views_each", [1, 10])
def test_equals_brute_force_on_gaussians(views_each):
    rng = np.random.default_rng(0)
    counts = [views_each] * 300
    views = rng.standard_normal((sum(counts), 16)).astype(np.float32)
    queries = rng.standard_normal((50, 16)).astype(np.float32)
    ids = [f"p{number}" for number in range(300)]
    offsets = np.cumsum(counts) - counts
    top = top_passages_by(views, offsets, tie_order(pa.array(ids)), queries, 20, [ALL_VIEWS])[0]
    expected = by_brute_force(views, counts, ids, queries, 20)
    for got, want in zip(as_rows(top, ids), expected, strict=True):
        assert [row[0] for row in got] == [row[0] for row in want]
        assert [row[2] for row in got] == [row[2] for row in want]
        np.testing.assert_allclose([row[1] for row in got], [row[1] for row in want], rtol=1e-5)


def test_one_passage_may_hold_all_the_best_views():
    """Its fifty views outscore everything, so far more than k views must be fetched for the second passage."""
    views = np.concatenate([np.full((50, 1), 9.0), np.arange(1, 6).reshape(-1, 1)]).astype(np.float32)
    offsets = np.array([0, 50, 51, 52, 53, 54])
    ids = ["a", "b", "c", "d", "e", "f"]
    top = top_passages_by(
        views, offsets, tie_order(pa.array(ids)), np.ones((1, 1), np.float32), 3, [ALL_VIEWS]
    )[0]
    assert as_rows(top, ids) == [[("a", 9.0, 0), ("f", 5.0, 0), ("e", 4.0, 0)]]


def test_ties_at_the_last_place_go_to_the_smaller_id_however_many_tie():
    ids = [str(number) for number in range(1000)]
    views = np.ones((1000, 2), np.float32)
    top = top_passages_by(
        views, np.arange(1000), tie_order(pa.array(ids)), np.ones((2, 2), np.float32), 3, [ALL_VIEWS]
    )[0]
    assert [[row[0] for row in ranking] for ranking in as_rows(top, ids)] == [["0", "1", "10"]] * 2


def test_equal_passages_with_short_views_take_little_memory():
    """Every product of a block may be among the best, and a block holds many short views."""
    dim, passages, rng = 16, 10_000, np.random.default_rng(0)
    view = rng.normal(size=dim)
    queries = (view + 0.1 * rng.normal(size=(512, dim))).astype(np.float32)
    tracemalloc.start()
    try:
        views = np.tile(view.astype(np.float16), (passages, 1))
        top = top_passages_by(views, np.arange(passages), np.arange(passages), queries, 10, [ALL_VIEWS])[0]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (top.passages == np.arange(10)).all()
    assert peak < 500e6


def test_a_question_with_far_more_proposals_than_others_takes_little_memory():
    """Every passage ties for a question of zeros, and the others have few proposals each."""
    rng = np.random.default_rng(0)
    views = rng.standard_normal((20_000, 8)).astype(np.float16)
    queries = rng.standard_normal((1000, 8)).astype(np.float32)
    queries[5] = 0
    ties = rng.permutation(20_000)
    tracemalloc.start()
    try:
        top = top_passages_by(views, np.arange(20_000), ties, queries, 10, [ALL_VIEWS])[0]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (ties[top.passages[5]] == np.arange(10)).all()
    alone = top_passages_by(views, np.arange(20_000), ties, queries[4:7], 10, [ALL_VIEWS])[0]
    assert (alone.passages == top.passages[4:7]).all()
    assert peak < 150e6


def test_fewer_passages_than_asked_are_padded_and_never_wrap_round():
    views = np.array([[1.0], [-3.0]], np.float32)
    top = top_passages_by(
        views, np.array([0, 1]), np.array([0, 1]), np.ones((1, 1), np.float32), 5, [ALL_VIEWS]
    )[0]
    assert top.passages.tolist() == [[0, 1, -1, -1, -1]]
    assert top.scores[0, :2].tolist() == [1.0, -3.0]
    assert np.isneginf(top.scores[0, 2:]).all()
    assert top.winning_views.tolist() == [[0, 0, -1, -1, -1]]


def test_all_scores_negative_keep_their_maximum():
    """A max that starts from zero, as lightning-ir's scatter_reduce, would call all of these 0."""
    views = np.array([[-5.0], [-2.0], [-3.0], [-4.0]], np.float32)
    top = top_passages_by(
        views, np.array([0, 2]), np.array([0, 1]), np.ones((1, 1), np.float32), 2, [ALL_VIEWS]
    )[0]
    assert top.passages.tolist() == [[0, 1]]
    assert top.scores.tolist() == [[-2.0, -3.0]]
    assert top.winning_views.tolist() == [[1, 0]]


def test_passages_without_views_are_never_found():
    views = np.array([[1.0], [2.0]], np.float32)
    offsets = np.array([0, 0, 1, 2])  # passages 0 and 3 have no view
    top = top_passages_by(views, offsets, np.arange(4), np.ones((1, 1), np.float32), 4, [ALL_VIEWS])[0]
    assert top.passages.tolist() == [[2, 1, -1, -1]]


def test_no_questions_and_bad_questions():
    views = np.ones((2, 2), np.float16)
    assert top_passages_by(views, np.arange(2), np.arange(2), np.empty((0, 2)), 3, [ALL_VIEWS])[
        0
    ].passages.shape == (0, 3)
    with pytest.raises(ValueError, match="not finite"):
        top_passages_by(views, np.arange(2), np.arange(2), np.array([[np.nan, 1]]), 3, [ALL_VIEWS])[0]
    with pytest.raises(ValueError, match="1 or more"):
        top_passages_by(views, np.arange(2), np.arange(2), np.ones((1, 2)), 0, [ALL_VIEWS])[0]


@pytest.mark.parametrize("without", [False, True])
def test_onednn_and_numpy_find_the_same(without, monkeypatch):
    rng = np.random.default_rng(4)
    views = rng.standard_normal((3000, 24)).astype(np.float16)
    queries = rng.standard_normal((2 * kernels.ONEDNN_QUESTIONS, 24)).astype(np.float32)
    offsets, ties = np.arange(0, 3000, 3), np.arange(1000)
    if without:
        monkeypatch.setattr(kernels, "onednn_product", lambda: None)
    together = top_passages_by(views, offsets, ties, queries, 7, [ALL_VIEWS])[0]
    for number, query in enumerate(queries):
        alone = top_passages_by(views, offsets, ties, query[None], 7, [ALL_VIEWS])[0]  # by NumPy
        assert alone.passages[0].tolist() == together.passages[number].tolist()
        assert alone.scores[0].tobytes() == together.scores[number].tobytes()


def test_a_torch_that_has_onednn_has_its_product():
    assert (kernels.onednn_product() is not None) == torch.backends.mkldnn.is_available()
