"""Means over pairs of views."""

import numpy as np
import pytest

from multiview.evaluation.analyses.matrices import off_diagonal, pair_means, view_cosines


def test_pairs_that_no_passage_has_count_for_nothing():
    nan = np.nan
    one = np.array([[[1.0, 4, nan], [2, 1, nan], [nan, nan, nan]]])
    other = np.array([[[3.0, nan, nan], [nan, nan, nan], [nan, nan, nan]]])
    means = pair_means([one, other], 3)
    assert means[0, 0] == 2 and np.isnan(means[2, 2])
    assert off_diagonal("d", means) == {"d": 3, "d_min": 2, "d_max": 4}
    assert off_diagonal("d", np.ones((1, 1))) == {}


@pytest.mark.parametrize("views", [(4,), (1, 4), (0, 3)])
@pytest.mark.parametrize("zeros", [False, True])
def test_cosines_have_the_bits_of_the_plain_formula(views, zeros):
    """Passages of one number of views or of several, some views zero; in float16 as in float64."""
    rng = np.random.default_rng(0)
    counts = np.append(rng.choice(views, 30), max(views))
    vectors = rng.standard_normal((counts.sum(), 48)).astype(np.float16)
    vectors[: 2 * zeros] = 0
    plain = np.full((len(counts), max(views), 48), np.nan)
    for passage, part in zip(
        plain, np.split(vectors.astype(np.float64), np.cumsum(counts)[:-1]), strict=True
    ):
        lengths = np.linalg.norm(part, axis=1, keepdims=True)
        passage[: len(part)] = part / np.where(lengths > 0, lengths, 1)
    expected = plain @ plain.transpose(0, 2, 1)
    for given in (vectors, vectors.astype(np.float32)):
        before = given.copy()
        np.testing.assert_array_equal(view_cosines(given, counts, max(views)), expected)
        np.testing.assert_array_equal(given, before)
