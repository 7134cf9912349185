"""Floors say which scores to look for: hardly ever too high, and high enough to leave out most passages."""

import numpy as np
import pytest
import torch

from multiview.index import exact
from multiview.index.exact import top_passages_by
from multiview.index.floors import floors
from multiview.index.kernels import Float32, kernels
from multiview.index.products import ALL_VIEWS


def collection(passages: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """Views of 1 to 4 per passage, those of a passage near each other, and the row of each passage's first view."""
    counts = rng.integers(1, 5, passages)
    views = np.repeat(rng.standard_normal((passages, 32)), counts, axis=0)
    views += 0.3 * rng.standard_normal(views.shape)
    return views.astype(np.float16), np.cumsum(counts) - counts


def kernel(queries: np.ndarray) -> Float32:
    return Float32(queries, 20.0, torch.device("cpu"))


@pytest.mark.parametrize("k", [1, 10, 100])
@pytest.mark.parametrize("share", [None, 0.5])
def test_floors_are_below_the_best_scores_and_above_most_others(k, share):
    rng = np.random.default_rng(0)
    views, offsets = collection(4000, rng)
    queries = rng.standard_normal((500, 32)).astype(np.float32)
    among = None if share is None else rng.random(4000) < share
    found = floors(views, offsets, kernel(queries), 500, k, [ALL_VIEWS], among)
    assert found is not None
    (floor,) = found
    scores = np.maximum.reduceat(views.astype(np.float32) @ queries.T, offsets)
    scores = scores if among is None else scores[among]
    assert floor.dtype == np.float32 and floor.shape == (500,)
    assert (np.sort(scores, axis=0)[-k] >= floor).mean() > 0.995
    assert (scores >= floor).mean() < 0.25


def test_a_sample_too_small_for_a_guess_gives_none():
    rng = np.random.default_rng(0)
    views, offsets = collection(100, rng)
    queries = rng.standard_normal((70, 32)).astype(np.float32)
    assert floors(views, offsets, kernel(queries), 70, 20, [ALL_VIEWS]) is None
    assert floors(views, offsets, kernel(queries), 70, 1, [ALL_VIEWS], np.zeros(100, bool)) is None


def test_views_that_few_passages_have_are_all_looked_for():
    """The sample has too few passages with a fourth view to tell anything of their scores."""
    rng = np.random.default_rng(0)
    counts = np.ones(4000, np.int64)
    counts[:20] = 4
    views = rng.standard_normal((counts.sum(), 8)).astype(np.float16)
    queries = rng.standard_normal((70, 8)).astype(np.float32)
    ranges = [ALL_VIEWS, (3, 4)]
    found = floors(views, np.cumsum(counts) - counts, kernel(queries), 70, 5, ranges)
    assert found is not None
    every, fourth = found
    assert np.isfinite(every).all()
    assert np.isneginf(fourth).all()


def test_a_question_whose_floor_is_too_high_is_searched_for_again(monkeypatch):
    rng = np.random.default_rng(0)
    views, offsets = collection(4000, rng)
    queries = rng.standard_normal((exact.GUESSED_FOR, 32)).astype(np.float32)
    given = views, offsets, rng.permutation(4000), queries, 10, [ALL_VIEWS]
    (expected,) = top_passages_by(*given)
    asked: list[int] = []

    def counted(queries, *args):
        asked.append(len(queries))
        return kernels(queries, *args)

    def too_high(*args):
        found = floors(*args)
        assert found is not None
        found[0][7] += 1000
        return found

    monkeypatch.setattr(exact, "kernels", counted)
    monkeypatch.setattr(exact, "floors", too_high)
    (found,) = top_passages_by(*given)
    assert asked == [exact.GUESSED_FOR, 1]
    assert found.passages.tolist() == expected.passages.tolist()
    assert found.scores.tobytes() == expected.scores.tobytes()
    assert found.winning_views.tolist() == expected.winning_views.tolist()
