"""Exact search equals brute force in float64: max over a passage's views, ties to the smaller id."""

import threading
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from multiview.errors import InputError
from multiview.index import exact
from multiview.index.exact import ExactSearch
from multiview.index.ranking import ALL_VIEWS, TieOrder, TopPassages
from multiview.index.stored_views import NORMS_AT_ONCE, longest_view
from tests.fixtures.full_gpu import full

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
LARGE = 1 << 30


def by_brute_force(views, offsets, ties, queries, k, view_range=ALL_VIEWS, among=None):
    """Returns (passage, score, view) of each question's best, from every view's score in float64."""
    rankings = []
    parts = [part[slice(*view_range)] for part in np.split(views.astype(np.float64), offsets[1:])]
    for query in queries.astype(np.float64):
        rows = []
        for passage, part in enumerate(parts):
            if len(part) and (among is None or among[passage]):
                # Each by itself, so that equal views score equally.
                scores = [float((view * query).sum()) for view in part]
                rows.append((passage, max(scores), view_range[0] + int(np.argmax(scores))))
        rankings.append(sorted(rows, key=lambda row: (-row[1], ties[row[0]]))[:k])
    return rankings


def wrong_products(longest, seed):
    """Returns a stand-in for `products` whose products are wrong at random, nearly by as much as they may be."""
    rng = np.random.default_rng(seed)

    def products(views, questions):
        found = views.to(questions.device).double() @ questions.double().T
        # Rounding to float32 takes up to a third of the bound.
        bounds = 0.6 * exact.product_bounds(questions.cpu().numpy(), longest)
        return (found + torch.from_numpy(bounds * rng.choice([-1, 1], found.shape)).to(found.device)).float()

    return products


TIED = np.ones((40, 3), np.float16), np.arange(40), np.arange(40), np.ones((1, 3), np.float32), None
"""As `vectors`."""


def as_rows(top: TopPassages):
    return [top.hits(question) for question in range(len(top.passages))]


def assert_equal(found: TopPassages, expected):
    assert [[(p, v) for p, _, v in ranking] for ranking in as_rows(found)] == [
        [(p, v) for p, _, v in ranking] for ranking in expected
    ]
    for got, wanted in zip(as_rows(found), expected, strict=True):
        np.testing.assert_allclose([s for _, s, _ in got], [s for _, s, _ in wanted], rtol=1e-6, atol=1e-30)


@st.composite
def vectors(draw):
    """Views of passages and questions: small whole numbers, of which many tie; random; or so near each other that float32
    cannot tell their scores apart."""
    kind = draw(st.sampled_from(["whole", "negative", "random", "near", "large", "least"]))
    dim = draw(st.sampled_from([1, 2, 3, 24]))
    most = draw(st.sampled_from([1, 3, 10]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    counts = rng.integers(draw(st.sampled_from([0, 1])), most + 1, draw(st.integers(1, 60)))
    shape, asked = (int(counts.sum()), dim), (draw(st.sampled_from([1, 2, 15, 40])), dim)
    if kind == "whole":
        views, queries = rng.integers(-2, 3, shape), rng.integers(-2, 3, asked)
    elif kind == "negative":
        views, queries = rng.integers(-3, 0, shape), rng.integers(0, 3, asked)
    else:
        views, queries = rng.standard_normal(shape), rng.standard_normal(asked)
        if kind == "near":
            # Tiny differences beside large values that cancel out.
            base = rng.standard_normal(dim)
            views = np.where(np.arange(dim) < 3, rng.integers(0, 4, shape) * 2.0**-24, base)
            base[:3] = 0
            queries -= (queries @ base / max(base @ base, 1e-9))[:, None] * base
        views *= {"large": 20_000.0, "least": 2.0**-22}.get(kind, 1)
        queries *= draw(st.sampled_from([1e-37, 1e-20, 1.0, 1e8]))
        queries[rng.random(len(queries)) < 0.1] = 0
    views = views.clip(-65504, 65504).astype(np.float16)
    if len(views) and draw(st.booleans()):
        copied = rng.integers(0, len(views), (2, len(views) // 2))
        views[copied[0]] = views[copied[1]]
    ties = TieOrder(pa.array([str(number) for number in rng.permutation(len(counts))]))  # "10" < "9"
    share = draw(st.sampled_from([None, None, 0.0, 0.05, 0.5]))
    among = None if share is None else rng.random(len(counts)) < share
    return views, np.cumsum(counts) - counts, ties, queries.astype(np.float32), among


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=100, deadline=None)
@example(TIED, 5, 0, LARGE, LARGE, LARGE, LARGE, 16, 0)
@given(
    vectors(),
    st.integers(1, 70),
    st.integers(0, 11),
    st.sampled_from([1, 100, 1000, 3000, LARGE]),
    st.sampled_from([1, 7, LARGE]),
    st.sampled_from([1, 5, LARGE]),
    st.sampled_from([0, LARGE]),
    st.sampled_from([1, 16]),
    st.none() | st.integers(0, 9),
)
def test_equals_brute_force(
    device, given_vectors, k, view, block_bytes, at_once, multiplied, few, spare, wrong
):
    """With duplicates, ties, one view or ten, masks, ranges of views and negative scores, whatever the blocks, the number of
    questions at once and of passages that are kept, and however products are rounded."""
    views, offsets, ties, queries, among = given_vectors
    ranges = [ALL_VIEWS, (view, view + 1), (0, view + 1), (view, None)]
    search = ExactSearch(views, offsets, ties, longest_view(views), device)
    with pytest.MonkeyPatch.context() as patch:
        for limit, names in (
            (block_bytes, ("BLOCK_BYTES", "GPU_BLOCK_BYTES")),
            (at_once, ("QUESTIONS_AT_ONCE",)),
            (multiplied, ("MULTIPLIED",)),
            (few, ("FEW_QUESTIONS", "GPU_SHARE")),
        ):
            for name in names:
                patch.setattr(exact, name, min(limit, getattr(exact, name)))
        patch.setattr(exact, "SPARE", spare)
        if wrong is not None:
            patch.setattr(exact, "products", wrong_products(longest_view(views), wrong))
        tops = search.top(queries, k, ranges, among=among)
    for view_range, top in zip(ranges, tops, strict=True):
        assert_equal(top, by_brute_force(views, offsets, ties, queries, k, view_range, among))


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=100, deadline=None)
@given(vectors(), st.sampled_from([0, LARGE]))
def test_products_are_as_near_to_scores_as_stated(device, given_vectors, few):
    views, _, _, queries, _ = given_vectors
    if not len(views):
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "FEW_QUESTIONS", few)
        found = exact.products(torch.from_numpy(views), torch.from_numpy(queries).to(device))
    bounds = exact.product_bounds(queries, longest_view(views))
    scores = views.astype(np.float64) @ queries.astype(np.float64).T
    assert (np.abs(found.double().cpu().numpy() - scores) <= bounds).all()


@pytest.mark.parametrize("row", [0, NORMS_AT_ONCE, -1])
def test_the_longest_view_may_be_in_any_block(row):
    views = np.random.default_rng(0).normal(size=(2 * NORMS_AT_ONCE + 1, 4)).astype(np.float16)
    views[row] = 100
    assert longest_view(views) == 200
    assert longest_view(views, 300.0) == 300


@pytest.mark.parametrize("having", [0, 5, 200])
def test_a_view_that_few_passages_have_is_searched_in_one_pass(having, monkeypatch):
    """Passages without it are no candidates: nobody looks for them among ever more."""
    rng, k = np.random.default_rng(0), 100
    counts = np.r_[np.full(having, 2), np.ones(2000 - having, int)]
    views = rng.standard_normal((int(counts.sum()), 16)).astype(np.float16)
    offsets, ties = np.cumsum(counts) - counts, rng.permutation(len(counts))
    queries = rng.standard_normal((9, 16)).astype(np.float32)
    passes, best = [], ExactSearch._best
    monkeypatch.setattr(ExactSearch, "_best", lambda *given: passes.append(1) or best(*given))
    (found,) = ExactSearch(views, offsets, ties, longest_view(views), "cpu").top(queries, k, [(1, 2)])
    assert len(passes) == 1
    assert_equal(found, by_brute_force(views, offsets, ties, queries, k, (1, 2), None))


@pytest.mark.parametrize("device", DEVICES)
def test_a_large_search_equals_brute_force(device):
    """With the numbers that are used, not those of small tests; the precision that somebody chose stays."""
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 9, 9000)
    views = rng.standard_normal((int(counts.sum()), 96)).astype(np.float16)
    views[:4000] = views[4000:8000]
    offsets, ties = np.cumsum(counts) - counts, rng.permutation(len(counts))
    queries = rng.standard_normal((60, 96)).astype(np.float32)
    # Each by itself, so that equal views score equally.
    scores = np.stack([(views.astype(np.float64) * query).sum(axis=1) for query in queries], axis=1)
    some = np.flatnonzero(counts)
    best = np.maximum.reduceat(scores, offsets[some])
    search = ExactSearch(views, offsets, ties, longest_view(views), device)
    torch.set_float32_matmul_precision("high")
    try:
        for k in (1, 100, 3000):
            found = search.top(queries, k)[0]
            for question, row in enumerate(found.passages):
                order = np.lexsort((ties[some], -best[:, question]))[:k]
                assert (row == some[order]).all()
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("device", DEVICES)
def test_a_question_is_answered_alike_alone_and_among_others(device):
    rng = np.random.default_rng(0)
    views, offsets = rng.standard_normal((900, 32)).astype(np.float16), np.arange(0, 900, 3)
    queries = rng.standard_normal((70, 32)).astype(np.float32)
    order = TieOrder(pa.array([str(number) for number in range(300)]))
    search, here = (ExactSearch(views, offsets, order, longest_view(views), on) for on in (device, "cpu"))
    together = here.top(queries, 10)[0]
    for row in (0, 33, 69):
        alone = search.top(queries[row : row + 1], 10)[0]
        np.testing.assert_array_equal(alone.scores[0], together.scores[row], "to the bit")
        np.testing.assert_array_equal(alone.passages[0], together.passages[row])


def peak_of(run):
    tracemalloc.start()
    try:
        return run(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_equal_passages_with_short_views_take_little_memory():
    """Every product of a block may be among the best, and a block holds many short views."""
    dim, passages, rng = 16, 10_000, np.random.default_rng(0)
    view = rng.normal(size=dim)
    queries = (view + 0.1 * rng.normal(size=(512, dim))).astype(np.float32)
    views = np.tile(view.astype(np.float16), (passages, 1))
    search = ExactSearch(views, np.arange(passages), np.arange(passages), longest_view(views))
    (top,), peak = peak_of(lambda: search.top(queries, 10))
    assert (top.passages == np.arange(10)).all()
    assert peak < 300e6


def test_a_question_with_far_more_candidates_than_others_takes_little_memory():
    """Every passage ties for a question of zeros, and the others have few candidates each."""
    rng = np.random.default_rng(0)
    views = rng.standard_normal((20_000, 8)).astype(np.float16)
    queries = rng.standard_normal((1000, 8)).astype(np.float32)
    queries[5] = 0
    ties = rng.permutation(20_000)
    search = ExactSearch(views, np.arange(20_000), ties, longest_view(views))
    (top,), peak = peak_of(lambda: search.top(queries, 10))
    assert (ties[top.passages[5]] == np.arange(10)).all()
    assert (search.top(queries[4:7], 10)[0].passages == top.passages[4:7]).all()
    assert peak < 150e6


def test_no_questions_no_views_and_bad_questions():
    search = ExactSearch(np.ones((2, 2), np.float16), np.arange(2), np.arange(2), 2**0.5)
    assert search.top(np.empty((0, 2)), 3)[0].passages.shape == (0, 3)
    none = ExactSearch(np.ones((0, 2), np.float16), np.zeros(3, np.int64), np.arange(3), 0.0)
    assert none.top(np.ones((1, 2)), 2)[0].passages.tolist() == [[-1, -1]]
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="not finite"):
            search.top(np.array([[bad, 1]]), 3)
    with pytest.raises(ValueError, match="1 or more"):
        search.top(np.ones((1, 2)), 0)


def test_views_move_to_the_gpu_once_they_fit(monkeypatch):
    """An index that was loaded beside its predecessor finds no room at first; what torch keeps of a dropped one is room."""
    rng = np.random.default_rng(0)
    views = rng.standard_normal((100, 8)).astype(np.float16)
    search = ExactSearch(views, np.arange(100), np.arange(100), longest_view(views), "cuda")
    moved, memory = [], {"free": 0, "kept": 0, "used": 0}

    def to(tensor: torch.Tensor, device: str) -> torch.Tensor:
        moved.extend([1] * (tensor.dtype == torch.float16))
        return tensor

    monkeypatch.setattr(torch.Tensor, "to", to)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (memory["free"], 1 << 40))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: memory["kept"])
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: memory["used"])

    def found() -> list[list[int]]:
        return search.top(views[:3].astype(np.float32), 5)[0].passages.tolist()

    monkeypatch.setattr(exact, "products", lambda views, questions: views.float() @ questions.T)
    first = found()
    memory.update(free=exact.GPU_ROOM + views.nbytes - 1)
    assert (found(), moved) == (first, [])
    memory.update(kept=2, used=1)
    assert (found(), moved) == (first, [1])
    memory.update(free=0)
    assert (found(), moved) == (first, [1])


def test_a_gpu_s_full_memory_is_one_line(monkeypatch):
    monkeypatch.setattr(exact, "products", full)
    search = ExactSearch(np.ones((1, 2), np.float16), np.zeros(1, int), np.zeros(1, int), 2.0)
    with pytest.raises(InputError, match="the GPU's memory is full: set encode.device=cpu"):
        search.top(np.ones((1, 2), np.float32), 1)


def test_simultaneous_searches_multiply_in_full_precision_and_leave_the_applications():
    begun, ends = threading.Barrier(2), [threading.Event(), threading.Event()]

    def search(end: threading.Event) -> None:
        with exact.full_precision():
            begun.wait(60)
            end.wait(60)

    torch.set_float32_matmul_precision("high")
    try:
        searches = [threading.Thread(target=search, args=(end,)) for end in ends]
        for each in searches:
            each.start()
            begun.wait(60)
        for each, end, left in zip(searches, ends, ("highest", "high"), strict=True):
            end.set()
            each.join(60)
            assert torch.get_float32_matmul_precision() == left
    finally:
        torch.set_float32_matmul_precision("highest")
