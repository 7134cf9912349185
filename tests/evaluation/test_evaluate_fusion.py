"""Reciprocal rank fusion against the paper's sum, in exact fractions."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from multiview.evaluation.evaluate import reciprocal_rank_fusion

RANKINGS = st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8), min_size=1, max_size=3)


@given(rankings=RANKINGS, constant=st.integers(0, 100), depth=st.integers(1, 8))
def test_scores_are_the_sum_of_reciprocal_ranks(rankings, constant, depth):
    fused = reciprocal_rank_fusion(
        [[(name, -float(i)) for i, name in enumerate(ranking)] for ranking in rankings], constant, depth
    )
    expected = {
        name: sum(Fraction(1, constant + 1 + r.index(name)) for r in rankings if name in r)
        for name in {name for ranking in rankings for name in ranking}
    }
    order = sorted(expected, key=lambda name: (-expected[name], name))[:depth]
    assert [name for name, _ in fused] == order
    assert all(abs(score - expected[name]) < 1e-12 for name, score in fused)
    assert len({name for name, _ in fused}) == len(order)
