"""Generation of a few queries per passage, shard by shard.

transformers draws a whole batch from one generator, so that a passage's queries would depend on its neighbours in the
batch. Here each token of each query has its own uniform number, and the token is found by inverting the distribution
at this number: top-k and top-p sampling that is exact and independent of order, batch and shard.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor
from transformers import LogitsProcessor, LogitsProcessorList
from transformers.modeling_outputs import BaseModelOutput

from multiview.config import Generation
from multiview.data.passages import COLUMNS, ROW_GROUP, Passage, count_passages, passages_of, read_tables
from multiview.data.queries import FILE, iterate_queries, query_table, write_by_parts
from multiview.data.questions import seeded_hash
from multiview.errors import counted
from multiview.generation.generators import input_length, input_text, load
from multiview.model.devices import device, within_gpu_memory
from multiview.steps.context import StepContext

TOP_K, TOP_P = 25, 0.95
"""Top-k, then nucleus (top-p) sampling of each token, as in the authors' code."""
BUCKET = 64
"""Inputs are padded to a multiple of this many tokens."""


class QueryGenerator:
    """A loaded generator on its device.

    All batches of one padded length are filled up to the same shape, because the last bits of logits depend on it.
    """

    def __init__(self, folder: Path, settings: Generation, on: str = "auto") -> None:
        """`on` is the value of `encode.device`."""
        self.settings = settings
        self.device = device(on, "encode.device")
        model, self.tokenizer = load(folder)
        self._longest = input_length(model, settings)
        self.model = model.to(self.device)

    def queries(self, passages: Sequence[Passage]) -> Iterator[tuple[int, list[str]]]:
        """Yields (index, `generation.queries` queries) per passage, batch by batch, so not in the order given."""
        inputs = [self._tokens(passage) for passage in passages]
        by_length: dict[int, list[int]] = defaultdict(list)
        for index, tokens in enumerate(inputs):
            by_length[min(-(-len(tokens) // BUCKET) * BUCKET, self._longest)].append(index)
        size = self.settings.batch_size
        for length, indices in sorted(by_length.items()):
            for first in range(0, len(indices), size):
                batch = indices[first : first + size]
                members = [(passages[index].id, inputs[index]) for index in batch]
                yield from zip(batch, self._batch(members, length), strict=True)

    def _tokens(self, passage: Passage) -> list[int]:
        text = input_text(passage, self.settings)
        return self.tokenizer(text, truncation=True, max_length=self._longest)["input_ids"]

    @torch.inference_mode()
    def _batch(self, members: Sequence[tuple[str, list[int]]], length: int) -> list[list[str]]:
        """Returns the queries of each of at most `batch_size` passages, given by id and tokens."""
        settings = self.settings
        filled = [*members, *[members[-1]] * (settings.batch_size - len(members))]
        inputs = self.tokenizer.pad(
            {"input_ids": [tokens for _, tokens in filled]},
            padding="max_length",
            max_length=length,
            return_tensors="pt",
        ).to(self.device)
        mask = inputs["attention_mask"]
        random_numbers = np.concatenate(
            [uniforms(settings.seed, id_, settings.queries, settings.max_length) for id_, _ in filled]
        )
        sampler = SeededSampler(torch.from_numpy(random_numbers).to(self.device), TOP_K, TOP_P)
        with within_gpu_memory(f"set generation.batch_size below {settings.batch_size}"):
            # A passage is encoded once for all of its queries.
            hidden = self.model.get_encoder()(input_ids=inputs["input_ids"], attention_mask=mask)[0]
            generated = self.model.generate(
                encoder_outputs=BaseModelOutput(
                    last_hidden_state=hidden.repeat_interleave(settings.queries, 0)
                ),
                attention_mask=mask.repeat_interleave(settings.queries, 0),
                logits_processor=LogitsProcessorList([sampler]),
                max_new_tokens=settings.max_length,
                do_sample=False,
            )
        texts = self.tokenizer.batch_decode(generated, skip_special_tokens=True)
        texts, count = [" ".join(text.split()) for text in texts], settings.queries
        return [texts[row * count : (row + 1) * count] for row in range(len(members))]


def generate_queries(context: StepContext) -> None:
    """Step: generates `queries` for the passages of one shard (`passages`) with `generator`.

    The queries of a passage do not depend on shard, order or neighbours. Empty ones are left out and counted. A run that
    was killed continues from its last checkpoint.
    """
    settings = context.settings
    generator = QueryGenerator(context.input("generator").path, settings.generation, settings.encode.device)
    shard, folder = context.input("passages").path, context.output("queries")
    total = count_passages(shard)

    def make(part: tuple[int, pa.Table]) -> pa.Table:
        number, table = part
        passages, queries = list(passages_of(table)), dict[int, list[str]]()
        for index, texts in generator.queries(passages):
            queries[index] = texts
            context.events.progress(number * ROW_GROUP + len(queries), total, "passages")
        return query_table(
            (passage.id, tuple(filter(None, queries[index]))) for index, passage in enumerate(passages)
        )

    write_by_parts(context, enumerate(read_tables(shard, COLUMNS, ROW_GROUP)), make, folder / FILE)
    counts = np.array([(len(queries), len(set(queries))) for _, queries in iterate_queries(folder)])
    written, distinct = counts.reshape(-1, 2).T
    per_passage, without = generator.settings.queries, int((written == 0).sum())
    context.events.fact(
        passages=len(counts),
        queries=int(written.sum()),
        distinct_queries=int(distinct.sum()),
        empty_queries=int((per_passage - written).sum()),
        passages_short_of_queries=int((written < per_passage).sum()),
        passages_without_queries=without,
    )
    if without:
        context.events.warning(
            f"{without:,} of {counted(len(counts), 'passage')} got no query and have only the view of their own text"
        )


# --- sampling ----------------------------------------------------------------------------------


def uniforms(seed: int, passage: str, queries: int, length: int) -> np.ndarray:
    """Returns the uniform numbers that draw a passage's queries, by seed, id and number, float64 [queries, length] in [0, 1)."""
    keys = [int(seeded_hash(seed, f"query {number} of {passage}")[:32], 16) for number in range(queries)]
    return np.stack([np.random.Generator(np.random.Philox(key=key)).random(length) for key in keys])


def candidates(scores: Tensor, top_k: int, top_p: float) -> tuple[Tensor, Tensor]:
    """Returns the distribution that a token is drawn from: probabilities float64 [R, k] and tokens int64 [R, k], sorted by token.

    `scores` [R, V] are logits. Of the k most probable tokens, the fewest are kept whose share together reaches `top_p`.
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
    """Makes greedy decoding sample: in each row, only the token that `uniforms` [row, position] draws can be chosen."""

    def __init__(self, uniforms: Tensor, top_k: int, top_p: float) -> None:
        self._uniforms, self._top_k, self._top_p = uniforms, top_k, top_p

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        uniform = self._uniforms[:, input_ids.shape[1] - 1]
        token = invert(*candidates(scores, self._top_k, self._top_p), uniform)
        return torch.full_like(scores, -torch.inf).scatter(1, token[:, None], 0.0)
