"""Top-k and top-p sampling in which a passage's queries depend on the passage, the seed and nothing else.

transformers draws a whole batch from one generator, so that a passage's queries would depend on its
neighbours. Here each token of each query has a uniform number of its own, and the token is found by
inverting the distribution at that number: exact sampling, whatever the order, the batch or the shard.
"""

import numpy as np
import torch
from torch import Tensor
from transformers import LogitsProcessor

from multiview.data.questions import draw


def uniforms(seed: int, passage: str, queries: int, length: int) -> np.ndarray:
    """The numbers that draw a passage's queries, float64 [queries, length] in [0, 1).

    A row depends on the seed, the passage's id and the query's number alone.
    """
    keys = [int(draw(seed, f"query {number} of {passage}")[:32], 16) for number in range(queries)]
    return np.stack([np.random.Generator(np.random.Philox(key=key)).random(length) for key in keys])


def candidates(scores: Tensor, top_k: int, top_p: float) -> tuple[Tensor, Tensor]:
    """What a token is drawn from: probabilities float64 [R, k] and tokens int64 [R, k], in order of tokens.

    `scores` [R, V] are logits. Of the k most probable tokens these fewest are kept whose probabilities among
    the k reach `top_p`; the others' are 0, and what is kept sums to 1.
    """
    values, tokens = scores.topk(min(top_k, scores.shape[1]))
    probabilities = values.double().softmax(-1)
    above = probabilities.cumsum(-1) - probabilities
    kept = torch.where(above < top_p, probabilities, 0.0)
    # By token rather than by probability: two tokens that all but tie keep their places.
    tokens, order = tokens.sort(-1)
    return (kept / kept.sum(-1, keepdim=True)).gather(-1, order), tokens


def invert(probabilities: Tensor, tokens: Tensor, uniform: Tensor) -> Tensor:
    """The token [R] of each row at which the running sum of its probabilities first exceeds `uniform` [R]."""
    sums = probabilities.cumsum(-1)
    # The last sum is 1 exactly, and every number is below it.
    sums = sums / sums[:, -1:]
    index = (sums <= uniform[:, None]).sum(-1, keepdim=True)
    return tokens.gather(-1, index).squeeze(-1)


class SeededSampler(LogitsProcessor):
    """Makes greedy decoding sample: leaves of each row's logits the drawn token alone.

    `uniforms` [R, T] holds a number for each row of the batch and each token after the decoder's first.
    """

    def __init__(self, uniforms: Tensor, top_k: int, top_p: float) -> None:
        self._uniforms, self._top_k, self._top_p = uniforms, top_k, top_p

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        uniform = self._uniforms[:, input_ids.shape[1] - 1]
        token = invert(*candidates(scores, self._top_k, self._top_p), uniform)
        return torch.full_like(scores, -torch.inf).scatter(1, token[:, None], 0.0)
