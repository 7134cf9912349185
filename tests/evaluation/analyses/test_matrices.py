"""Means over pairs of views."""

import numpy as np

from multiview.evaluation.analyses.matrices import PairMeans, off_diagonal


def test_pairs_that_no_passage_has_count_for_nothing():
    means = PairMeans(3)
    means.add(np.array([[[1.0, 4, 9], [2, 1, 9], [9, 9, 9]]]), np.array([[True, True, False]]))
    means.add(np.array([[[3.0, 9, 9], [9, 9, 9], [9, 9, 9]]]), np.array([[True, False, False]]))
    assert means.means()[0, 0] == 2 and np.isnan(means.means()[2, 2])
    assert off_diagonal("d", means.means()) == {"d": 3, "d_min": 2, "d_max": 4}
    assert off_diagonal("d", np.ones((1, 1))) == {}
