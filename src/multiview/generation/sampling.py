"""Top-k and top-p sampling in which a passage's queries depend only on the passage and the seed.

transformers draws a whole batch from one generator, so that a passage's queries depend on its neighbours in the
batch. Here each token of each query has its own uniform number, and the token is found by inverting the distribution
at this number. The sampling is exact and independent of order, batch and shard.
"""

import numpy as np
import torch
from torch import Tensor
from transformers import LogitsProcessor

from multiview.data.questions import seeded_hash


def uniforms(seed: int, passage: str, queries: int, length: int) -> np.ndarray:
    """Returns the uniform numbers that draw a passage's queries, float64 [queries, length] in [0, 1).

    A row depends only on the seed, the passage's id and the query's number.
    """
    keys = [int(seeded_hash(seed, f"query {number} of {passage}")[:32], 16) for number in range(queries)]
    return np.stack([np.random.Generator(np.random.Philox(key=key)).random(length) for key in keys])


def candidates(scores: Tensor, top_k: int, top_p: float) -> tuple[Tensor, Tensor]:
    """Returns the distribution that a token is drawn from: probabilities float64 [R, k] and tokens int64 [R, k], sorted by token.

    `scores` [R, V] are logits. Among the k most probable tokens, the smallest set whose probabilities among the k
    reach `top_p` is kept. All others get probability 0, and the kept probabilities sum to 1.
    """
    values, tokens = scores.topk(min(top_k, scores.shape[1]))
    probabilities = values.double().softmax(-1)
    above = probabilities.cumsum(-1) - probabilities
    kept = torch.where(above < top_p, probabilities, 0.0)
    # Sorted by token, not by probability, so that two tokens with almost equal probabilities keep their order.
    tokens, order = tokens.sort(-1)
    return (kept / kept.sum(-1, keepdim=True)).gather(-1, order), tokens


def invert(probabilities: Tensor, tokens: Tensor, uniform: Tensor) -> Tensor:
    """Returns, per row, the token [R] at which the cumulative sum of its probabilities first exceeds `uniform` [R]."""
    sums = probabilities.cumsum(-1)
    # The last sum is 1 exactly, and every number is below it.
    sums = sums / sums[:, -1:]
    index = (sums <= uniform[:, None]).sum(-1, keepdim=True)
    return tokens.gather(-1, index).squeeze(-1)


class SeededSampler(LogitsProcessor):
    """Makes greedy decoding sample, by keeping only the drawn token in each row's logits.

    `uniforms` [R, T] holds one number per row of the batch and per token after the decoder's first token.
    """

    def __init__(self, uniforms: Tensor, top_k: int, top_p: float) -> None:
        self._uniforms, self._top_k, self._top_p = uniforms, top_k, top_p

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        uniform = self._uniforms[:, input_ids.shape[1] - 1]
        token = invert(*candidates(scores, self._top_k, self._top_p), uniform)
        return torch.full_like(scores, -torch.inf).scatter(1, token[:, None], 0.0)
