"""Settings of the query generator, and of the questions that are made from the corpus."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from multiview.config.section import UNKEYED, Section, Seed


class GeneratorTraining(Section):
    """Fine-tuning of the query generator on the training questions; the authors' code uses transformers' defaults for most settings."""

    epochs: Annotated[float, Field(gt=0)] = 3
    """Passes over the pairs of gold passage and question (the authors' code: transformers' default)."""
    max_steps: Annotated[int, Field(ge=1)] | None = None
    """Stop after this many steps, even before `epochs` is reached; none: no limit."""
    batch_size: Annotated[int, Field(ge=1)] = 64
    """Pairs per step (the authors' code: 8 per GPU)."""
    learning_rate: Annotated[float, Field(gt=0)] = 5e-5
    """Peak learning rate, with linear decay to zero (the authors' code: transformers' default)."""
    warmup_ratio: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Linear warm-up as a share of all steps."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Precision of the computation. Not float16: T5's activations overflow it."""
    checkpoint_steps: Annotated[int, Field(ge=1), UNKEYED] = 500
    """Steps between checkpoints: the most that a killed run has to repeat. *Ours.*"""
    seed: Seed = 0
    """Seed of data order and dropout."""


class Generation(Section):
    """Queries generated from passages, for the Dual Cross Encoder (its 3.4). Settings that the paper leaves open follow the authors' code."""

    model: Annotated[str, UNKEYED] = "macavaney/doc2query-t5-base-msmarco"
    """A sequence-to-sequence model: hub name (`NAME` or `NAME@REVISION`), folder, bucket folder, `package:NAME`, or the address of a `generator` in a store. The default is docTTTTTquery's T5-base, which the authors use, with its weights as safetensors."""
    fine_tune: Annotated[bool, UNKEYED] = False
    """Fine-tune the generator on the training questions first. Shapes the DAG."""
    queries: Annotated[int, Field(ge=1)] = 10
    """Queries drawn per passage."""
    max_length: Annotated[int, Field(ge=1)] = 64
    """Longest query in tokens (the authors' code)."""
    input: Literal["text", "title_text"] = "title_text"
    """The model's input: the passage's text, or its title and its text (the authors' code)."""
    batch_size: Annotated[int, Field(ge=1)] = 32
    """Passages per batch; every batch has exactly this many. The last bits of the logits depend on it, so it is part of the key."""
    seed: Seed = 0
    """Seed of the draws, per passage and query: order and sharding do not matter."""
    device: Annotated[str, UNKEYED] = "auto"
    """cpu, cuda, or auto."""
    train: GeneratorTraining = GeneratorTraining()


class MakeQuestions(Section):
    """Questions made from snippets of the corpus, with `questions.origin` (docs/questions.md). *Ours.*"""

    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of the passages that questions are made from, drawn by `seed`."""
    snippets: Annotated[int, Field(ge=1)] = 8
    """Snippets per passage that Algorithm 1 makes (its n): as many as CAMVR has views, or more."""
    per_passage: Annotated[int, Field(ge=1)] = 2
    """Snippets per passage that questions are made from, drawn by `seed`."""
    longest: Annotated[int, Field(ge=1)] = 16
    """Most words of a crop, which has at least 4 where its snippet has; snippets with fewer words are not cropped."""
    found_within: Annotated[int, Field(ge=1)] | None = 10
    """Keep training questions with which BM25 finds their passage among this many (the round trip); none: keep all. Dev questions are not filtered, because every figure of BM25 would follow from the filter."""
    seed: Seed = 0
    """Seed of the draws, per passage and snippet: order and sharding do not matter."""
