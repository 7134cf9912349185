"""Reciprocal rank fusion against the paper's sum, in exact fractions."""

from fractions import Fraction
from random import Random

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from multiview.index.ranker import fused
from multiview.index.ranking import TopPassages

RANKING = st.lists(st.integers(0, 90), unique=True, max_size=80)


def tied(one: int, other: int) -> tuple[list[int], list[int]]:
    """Two rankings in which two passages tie, since 1/63 + 1/140 = 1/84 + 1/90; the sums of floats differ."""
    rankings = list(range(10, 90)), list(range(10, 90))
    for ranking, (place, other_place) in zip(rankings, ((3, 24), (80, 30)), strict=True):
        ranking[place - 1], ranking[other_place - 1] = one, other
    return rankings


@example([tied(0, 1), tied(1, 0)], 90, Random(0))
@given(st.lists(st.tuples(RANKING, RANKING), min_size=1, max_size=3), st.integers(1, 90), st.randoms())
def test_scores_are_the_sum_of_reciprocal_ranks(questions, k, shuffler):
    order = list(range(91))
    shuffler.shuffle(order)
    rankings = [TopPassages.empty(len(questions), 80) for _ in range(2)]
    for question, pair in enumerate(questions):
        for ranking, found in zip(rankings, pair, strict=True):
            ranking.passages[question, : len(found)] = found
    top = fused(rankings, np.array(order), k)
    for question, pair in enumerate(questions):
        sums = {
            row: sum(Fraction(1, 61 + found.index(row)) for found in pair if row in found)
            for row in {*pair[0], *pair[1]}
        }
        best = sorted(sums, key=lambda row: (-sums[row], order[row]))[:k]
        hits = top.hits(question)
        assert [row for row, *_ in hits] == best
        np.testing.assert_allclose([score for _, score, _ in hits], [float(sums[row]) for row in best], 1e-6)
