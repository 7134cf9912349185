"""Rankings by the first views, merged from those by each view alone, are those that a search by them finds."""

import numpy as np
import pytest

from multiview.index.exact import top_passages_by
from multiview.index.leading import searched
from multiview.index.products import ViewRange
from tests.fixtures.analysed_model import hand_index

LEADING: list[ViewRange] = [(0, n) for n in range(1, 6)]


def test_first_views_are_searched_for_by_each_view_alone_where_this_is_no_more_work():
    alone = [(view, view + 1) for view in range(5)]
    assert searched(LEADING) == alone
    assert searched([*alone, *LEADING, (0, None)]) == [*alone, (0, None)]
    assert searched([(0, 2), (1, 2)]) == [(1, 2), (0, 1)]
    for ranges in ([(0, 5)], [(0, None), (2, 4)], [(0, 5), (0, 3)], []):
        assert searched(ranges) == ranges


def made(rng: np.random.Generator, kind: str, dim: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Views of passages with none to five, and questions."""
    counts = rng.integers(0, 6, 70)
    if kind == "ties":
        return [rng.integers(-1, 2, (count, dim)) for count in counts], rng.integers(-1, 2, (9, dim))
    questions = rng.standard_normal((9, dim))
    if kind == "different":
        return [rng.standard_normal((count, dim)) for count in counts], questions
    # Nearly the same vector over and over, so that only float64 tells most of the scores apart.
    base, tiny = rng.standard_normal(dim), rng.integers(0, 4, (5, dim)) * 2.0**-24
    base[:3] = 0
    return [base + tiny[rng.integers(0, 5, count)] for count in counts], 100 * questions


@pytest.mark.parametrize("kind", ["ties", "different", "nearly the same"])
@pytest.mark.parametrize("k", [1, 7, 100])
@pytest.mark.parametrize("seed", range(5))
def test_equal_to_a_search_by_the_first_views(kind, k, seed):
    """Passages without a view, with one to five, fewer passages than k, and among some passages alone."""
    rng = np.random.default_rng(seed)
    views, questions = made(rng, kind, 24)
    index = hand_index(views, [str(number) for number in rng.permutation(len(views))])
    questions = questions.astype(np.float32)
    ranges = [*LEADING, (0, None), (2, 3)]
    for among in (None, rng.random(len(views)) < 0.5):
        most = min(k, len(views))  # an index's results are no wider
        plain = top_passages_by(
            index.stored.matrix, index.offsets, index.tie_order, questions, most, ranges, among=among
        )
        found = index.search_views(ranges, questions, k, among=among)
        for one, other in zip(plain, found, strict=True):
            np.testing.assert_array_equal(other.passages, one.passages)
            np.testing.assert_array_equal(other.winning_views, one.winning_views)
            np.testing.assert_array_equal(other.scores, one.scores)
            assert other.scores.dtype == np.float32 and other.winning_views.dtype == np.int32


@pytest.mark.filterwarnings("ignore:overflow")
def test_scores_that_float32_rounds_to_infinity_are_told_apart():
    rng = np.random.default_rng(0)
    index = hand_index([rng.uniform(1, 9, (3, 4)) for _ in range(20)], [f"p{n}" for n in range(20)])
    questions = np.array([[3e38] * 4, [-3e38] * 4], np.float32)
    plain = top_passages_by(index.stored.matrix, index.offsets, index.tie_order, questions, 20, LEADING)
    for one, other in zip(plain, index.search_views(LEADING, questions, 30), strict=True):
        np.testing.assert_array_equal(other.passages, one.passages)
        np.testing.assert_array_equal(other.winning_views, one.winning_views)
