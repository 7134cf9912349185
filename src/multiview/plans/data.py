"""The steps that all systems of a plan share: the split, the negatives of round one, and generated queries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from multiview import names
from multiview.config import Config
from multiview.generation.sources import published
from multiview.model.layouts import architecture
from multiview.plans.plan import Output, Plan, Source
from multiview.steps.path import StepPath, shard_name


@dataclass(frozen=True)
class Data:
    """The outputs that all systems read."""

    passages: Output
    train_questions: Output
    dev_questions: Output
    negatives: Output
    shards: tuple[str, ...]
    queries: Output | None = None
    """The queries generated for the passages, where a system needs them."""


def add_data(plan: Plan, config: Config, systems: Iterable[Config]) -> Data:
    """Adds the split, BM25's or given negatives, and generated queries if one of the systems needs them."""
    split = plan.add(StepPath("split"), "split", config)
    passages, train_questions = split.output(names.PASSAGES), split.output(names.TRAIN_QUESTIONS)
    inputs: dict[str, Source] = {"questions": train_questions}
    step = "given-negatives"
    if config.questions.hard_negatives != "given":
        step, inputs["passages"] = "bm25-negatives", passages
    negatives = plan.add(StepPath(step), step, config, (), **inputs)
    data = Data(
        passages, train_questions, split.output(names.DEV_QUESTIONS), negatives.output(), shard_names(config)
    )
    if any(reads_queries(system) or system.train.warm_up for system in systems):
        data = replace(data, queries=add_queries(plan, config, data))
    return data


def add_queries(plan: Plan, config: Config, data: Data) -> Output:
    """Adds the generation of queries for all passages and their evaluation; the generator may be fine-tuned first."""
    generator: Source | None = published(config.generation.model)
    if generator is None:
        generator = plan.add(StepPath("initial-generator"), "initial-generator", config).output()
    if config.generation.fine_tune:
        generator = plan.add(
            StepPath("train-generator"),
            "train-generator",
            config,
            base=generator,
            passages=data.passages,
            questions=data.train_questions,
        ).output()
    generated: list[Source] = [
        plan.add(
            StepPath("generate-queries"),
            "generate-queries",
            config,
            data.shards,
            generator=generator,
            passages=data.passages,
        ).output()
    ]
    plan.add(
        StepPath("evaluate-queries"),
        "evaluate-queries",
        config,
        queries=generated,
        questions=data.dev_questions,
    )
    return plan.add(StepPath("gather-queries"), "gather-queries", config, parts=generated).output()


def shard_names(config: Config) -> tuple[str, ...]:
    """Returns the names of the shards that passages are encoded in."""
    return tuple(shard_name(number) for number in range(config.corpus.shards))


def reads_queries(config: Config) -> bool:
    """Whether passages are encoded together with generated queries."""
    return architecture(config.model.architecture).reads_queries
