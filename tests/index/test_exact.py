"""Top passages over views equal the plain formula: max over a passage's views, ties to the smaller id."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.index.exact import TopPassages, tie_order, top_passages
from multiview.index.faiss_library import faiss


def flat(views: np.ndarray) -> faiss.IndexFlatIP:
    index = faiss.IndexFlatIP(views.shape[1])
    index.add(views)  # pyright: ignore[reportCallIssue]
    return index


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
@given(collections(), st.sampled_from([1, 64, 1 << 22]))
def test_equals_brute_force_among_heavy_ties(collection, fetched_at_once):
    views, counts, ids, queries, k = collection
    offsets = np.cumsum(counts) - counts
    top = top_passages(
        flat(views), offsets, tie_order(pa.array(ids)), queries, k, fetched_at_once=fetched_at_once
    )
    assert as_rows(top, ids) == by_brute_force(views, counts, ids, queries, k)


@pytest.mark.parametrize("views_each", [1, 10])
def test_equals_brute_force_on_gaussians(views_each):
    rng = np.random.default_rng(0)
    counts = [views_each] * 300
    views = rng.standard_normal((sum(counts), 16)).astype(np.float32)
    queries = rng.standard_normal((50, 16)).astype(np.float32)
    ids = [f"p{number}" for number in range(300)]
    offsets = np.cumsum(counts) - counts
    top = top_passages(flat(views), offsets, tie_order(pa.array(ids)), queries, 20)
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
    top = top_passages(flat(views), offsets, tie_order(pa.array(ids)), np.ones((1, 1), np.float32), 3)
    assert as_rows(top, ids) == [[("a", 9.0, 0), ("f", 5.0, 0), ("e", 4.0, 0)]]


def test_ties_at_the_last_place_go_to_the_smaller_id_however_many_tie():
    ids = [str(number) for number in range(1000)]
    views = np.ones((1000, 2), np.float32)
    top = top_passages(flat(views), np.arange(1000), tie_order(pa.array(ids)), np.ones((2, 2), np.float32), 3)
    assert [[row[0] for row in ranking] for ranking in as_rows(top, ids)] == [["0", "1", "10"]] * 2


def test_fewer_passages_than_asked_are_padded_and_never_wrap_round():
    """faiss gives −1 for views it has not; tevatron maps that to the last passage of a shard."""
    views = np.array([[1.0], [-3.0]], np.float32)
    top = top_passages(flat(views), np.array([0, 1]), np.array([0, 1]), np.ones((1, 1), np.float32), 5)
    assert top.passages.tolist() == [[0, 1, -1, -1, -1]]
    assert top.scores[0, :2].tolist() == [1.0, -3.0]
    assert np.isneginf(top.scores[0, 2:]).all()
    assert top.winning_views.tolist() == [[0, 0, -1, -1, -1]]


class Short:
    """An index that finds one view less than it has, and says −1 for it, as faiss's approximate ones may."""

    def __init__(self, index):
        self.index, self.ntotal = index, index.ntotal

    def search(self, x, k):
        scores, rows = self.index.search(x, k)
        scores[:, -1], rows[:, -1] = -3.4e38, -1
        return scores, rows


def test_a_view_that_was_not_found_is_no_passage():
    views = np.array([[3.0], [2.0], [1.0]], np.float32)
    top = top_passages(Short(flat(views)), np.arange(3), np.arange(3), np.ones((1, 1), np.float32), 3)
    assert top.passages.tolist() == [[0, 1, -1]]
    assert top.scores.tolist() == [[3.0, 2.0, -np.inf]] and top.winning_views.tolist() == [[0, 0, -1]]


def test_all_scores_negative_keep_their_maximum():
    """A max that starts from zero, as lightning-ir's scatter_reduce, would call all of these 0."""
    views = np.array([[-5.0], [-2.0], [-3.0], [-4.0]], np.float32)
    top = top_passages(flat(views), np.array([0, 2]), np.array([0, 1]), np.ones((1, 1), np.float32), 2)
    assert top.passages.tolist() == [[0, 1]]
    assert top.scores.tolist() == [[-2.0, -3.0]]
    assert top.winning_views.tolist() == [[1, 0]]


def test_passages_without_views_are_never_found():
    views = np.array([[1.0], [2.0]], np.float32)
    offsets = np.array([0, 0, 1, 2])  # passages 0 and 3 have no view
    top = top_passages(flat(views), offsets, np.arange(4), np.ones((1, 1), np.float32), 4)
    assert top.passages.tolist() == [[2, 1, -1, -1]]


class Counting:
    """An index that remembers how many questions and views were asked for."""

    def __init__(self, index):
        self.index, self.ntotal, self.asked = index, index.ntotal, []

    def search(self, x, k):
        self.asked.append((len(x), k))
        return self.index.search(x, k)


def test_only_unsettled_questions_are_asked_again_and_chunks_bound_what_is_held():
    views = np.concatenate([np.full((40, 2), [0, 9.0]), np.eye(2)[[0] * 40] * np.arange(1, 41)[:, None]])
    offsets = np.concatenate([[0], np.arange(40, 80)])
    searcher = Counting(flat(views.astype(np.float32)))
    queries = np.array([[1, 0], [1, 0], [0, 1]], np.float32)  # the last sees one passage forty times
    top = top_passages(searcher, offsets, np.arange(41), queries, 4, fetched_at_once=12)
    assert searcher.asked == [(2, 6), (1, 6), (1, 12), (1, 24), (1, 48), (1, 80)]
    assert top.passages.tolist() == [[40, 39, 38, 37], [40, 39, 38, 37], [0, 1, 2, 3]]


def test_no_questions_and_bad_questions():
    index = flat(np.ones((2, 2), np.float32))
    assert top_passages(index, np.arange(2), np.arange(2), np.empty((0, 2)), 3).passages.shape == (0, 3)
    with pytest.raises(ValueError, match="not finite"):
        top_passages(index, np.arange(2), np.arange(2), np.array([[np.nan, 1]]), 3)
    with pytest.raises(ValueError, match="1 or more"):
        top_passages(index, np.arange(2), np.arange(2), np.ones((1, 2)), 0)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text("aZ1~éſ￮𝄞", max_size=3), unique=True, min_size=1))
def test_tie_order_is_python_s_string_order(ids):
    order = sorted(range(len(ids)), key=ids.__getitem__)
    positions = tie_order(pa.array(ids))
    assert [positions[number] for number in order] == list(range(len(ids)))
