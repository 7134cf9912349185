"""Seeded sampling: exact top-k and top-p, and draws that know nothing of each other."""

from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import TopKLogitsWarper, TopPLogitsWarper

from multiview.generation.generate import SeededSampler, candidates, invert, uniforms


@given(st.integers(1, 40), st.floats(0.05, 1.0), st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_what_a_token_is_drawn_from_is_what_transformers_would_draw_from(
    top_k: int, top_p: float, seed: int
) -> None:
    scores = 3 * torch.randn(4, 30, generator=torch.Generator().manual_seed(seed))
    probabilities, tokens = candidates(scores, top_k, top_p)
    ours = torch.zeros(4, 30, dtype=torch.float64).scatter(1, tokens, probabilities)
    ids: Any = torch.zeros(4, 1, dtype=torch.int64)
    warped = TopPLogitsWarper(top_p)(ids, TopKLogitsWarper(top_k)(ids, scores.double()))
    torch.testing.assert_close(ours, warped.softmax(-1))
    assert (tokens.diff(dim=1) > 0).all(), "in the order of tokens"


def test_a_number_finds_its_token_and_never_an_impossible_one() -> None:
    probabilities = torch.tensor([[0.0, 0.5, 0.25, 0.0, 0.25, 0.0]], dtype=torch.float64)
    tokens = torch.tensor([[2, 3, 5, 7, 11, 13]])

    def token(uniform: float) -> int:
        return int(invert(probabilities, tokens, torch.tensor([uniform], dtype=torch.float64)))

    highest = np.nextafter(1, 0)
    assert [token(u) for u in (0, 0.4999, 0.5, 0.7499, 0.75, highest)] == [3, 3, 5, 5, 11, 11]


def test_draws_have_the_probabilities_of_the_softmax_among_the_top_k() -> None:
    """χ² over 20,000 draws; the numbers are seeded, so it passes or fails for good."""
    logits = torch.tensor([2.0, -1.0, 0.5, 1.0, -4.0, 0.0, 1.7, -0.3])
    count, top_k = 20_000, 5
    numbers = np.concatenate([uniforms(3, f"p{i}", 4, 2) for i in range(count // 4)])
    for position in range(2):
        sampler = SeededSampler(torch.from_numpy(numbers), top_k, 1.0)
        ids = torch.zeros(count, 1 + position, dtype=torch.int64)
        drawn = sampler(ids, logits.expand(count, -1)).argmax(-1)
        weights = np.exp(logits.double().numpy())
        weights[np.argsort(weights)[: len(weights) - top_k]] = 0
        expected = count * weights / weights.sum()
        observed = np.bincount(drawn.numpy(), minlength=len(weights))
        assert (observed[expected == 0] == 0).all()
        real = expected > 0
        chi_squared = ((observed - expected)[real] ** 2 / expected[real]).sum()
        assert chi_squared < 18.47, "the 0.1 % point of χ² with four degrees of freedom"


def test_numbers_depend_on_seed_passage_and_draw_alone() -> None:
    ten = uniforms(0, "p1", 10, 64)
    assert ten.shape == (10, 64) and ten.min() >= 0 and ten.max() < 1
    assert np.array_equal(uniforms(0, "p1", 3, 64), ten[:3]), "more queries leave the first ones"
    assert np.array_equal(uniforms(0, "p1", 10, 8), ten[:, :8]), "and so do longer ones"
    others = [ten, uniforms(1, "p1", 10, 64), uniforms(0, "p2", 10, 64)]
    assert len({row.tobytes() for numbers in others for row in numbers}) == 30
