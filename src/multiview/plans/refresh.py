"""The refresh pipeline: the current corpus, an index made from the champion's, and the gate."""

from __future__ import annotations

from multiview import metric_names, names
from multiview.artifacts.record import split_address
from multiview.config import Config
from multiview.config.overrides import Overrides, merge
from multiview.errors import InputError
from multiview.generation.generators import published
from multiview.model.systems import resolve
from multiview.plans.data import check_names, generated_queries, generator_of, reads_queries, shard_names
from multiview.plans.plan import Node, Output, Plan, Source
from multiview.steps.path import StepPath

DEFAULTS: Overrides = {"evaluation": {"analyses": []}, "questions": {"max_missing_gold": 1.0}}
"""Default settings of a refresh, under the given ones.

Champion and challenger are evaluated for the gate alone. The gate decides about a corpus that lost gold passages, by
`gate.max_lost_questions`.
"""


def refresh(overrides: Overrides) -> Plan:
    """Encodes the changes of the corpus, edits the champion's index, evaluates it, and promotes it if the gate passes."""
    config = resolve(merge(DEFAULTS, overrides))
    check_names(config)
    _check_gate(config)
    _check_questions(config)
    if config.refresh.model:
        split_address(config.refresh.model, "refresh.model: ")
    plan = Plan("refresh", architectures=_architectures(config))
    champion = plan.add(StepPath("champion"), "champion", config)
    old_passages = champion.output(names.PASSAGES)
    split = plan.add(StepPath("split"), "split-again", config, known=old_passages)
    passages = split.output(names.PASSAGES)
    old, model = champion.output(names.INDEX), champion.output(names.MODEL)
    changes, embeddings = _encode_changes(plan, config, old, model, passages)
    index = plan.add(
        StepPath("index", names.CHALLENGER),
        "refresh-index",
        config,
        old=old,
        changes=changes,
        model=model,
        passages=passages,
        embeddings=[embeddings],
    ).output()
    champion_inputs = {"model": champion.output(names.CHAMPION_MODEL), "index": old, "passages": old_passages}
    champion_evaluation = _evaluate(plan, config, names.CHAMPION, split, champion_inputs)
    inputs = {"model": model, "index": index, "passages": passages}
    challenger_evaluation = _evaluate(plan, config, names.CHALLENGER, split, inputs)
    verdict = plan.add(
        StepPath("gate"),
        "gate",
        config,
        champion=champion.output(),
        index=index,
        passages=passages,
        champion_evaluation=champion_evaluation,
        challenger_evaluation=challenger_evaluation,
        lost_questions=split.output(names.LOST_QUESTIONS),
    ).output()
    promotion = plan.add(
        StepPath("promote"),
        "promote",
        config,
        shards=(),
        champion=champion.output(),
        verdict=verdict,
        **inputs,
    ).output()
    plan.add(
        StepPath("report"),
        "refresh-report",
        config,
        promotion=promotion,
        verdict=verdict,
        changes=changes,
        index=index,
    )
    if config.export.formats:
        now = plan.add(StepPath("champion-now"), "champion-now", config, promotion=promotion)
        indexes = {name: now.output(name) for name in now.step.forwards}
        plan.add(StepPath("export"), "export", config, shards=(), **indexes)
    if config.export.qdrant_url:
        plan.add(StepPath("follow-champion"), "follow-champion", config, promotion=promotion)
    return plan


def _architectures(config: Config) -> dict[str, str]:
    """Returns the architecture of both systems' model, also under the name of the step `promote`: MLflow may first see
    the model there."""
    return dict.fromkeys((names.CHALLENGER, names.CHAMPION, "promote"), config.model.architecture)


def _check_gate(config: Config) -> None:
    """Raises InputError for a metric of the gate that these settings do not measure."""
    cuts, depth = config.evaluation.at, config.evaluation.depth
    metrics = metric_names.evaluation_metrics(cuts, depth)
    for setting in ("drops", "least"):
        for metric in getattr(config.gate, setting):
            if metric not in metrics:
                raise InputError(
                    f"gate.{setting}: {metric} is not measured: with evaluation.at={list(cuts)} and "
                    f"evaluation.depth={depth} there are {', '.join(metrics)}"
                )


def _check_questions(config: Config) -> None:
    """Raises InputError where the questions of the gate, or the generator of queries, would have to be made."""
    asked = config.questions
    if reads_queries(config) and config.generation.fine_tune and not published(config.generation.model):
        raise InputError(
            "generation.fine_tune: a refresh trains no generator: set generation.model=ADDRESS to that which wrote "
            "the champion's queries, and generation.fine_tune=false"
        )
    if asked.origin != "labelled" and not asked.source and not asked.dev_source:
        raise InputError(
            f"questions.origin={asked.origin}: a refresh makes no questions, and its gate needs some: set "
            "questions.dev_source to labelled ones, or to the dev questions of the run that trained the champion"
        )


def _encode_changes(
    plan: Plan, config: Config, old: Source, model: Source, passages: Source
) -> tuple[Output, Output]:
    """Adds the changes since the index `old` and their embeddings, read with queries where the model reads them."""
    generator = generator_of(plan, config) if reads_queries(config) else None
    inputs: dict[str, Source] = {"index": old, "model": model, "passages": passages}
    step = "changes"
    if generator:
        step, inputs["generator"] = "changes-with-queries", generator
    changes = plan.add(StepPath("changes", names.CHALLENGER), step, config, shards=(), **inputs).output()
    inputs = {"model": model, "passages": changes}
    step = "encode"
    if generator:
        queries = generated_queries(plan, config, generator, changes, names.CHALLENGER)
        step, inputs["queries"] = "encode-with-queries", queries
    encode = plan.add(StepPath("encode", names.CHALLENGER), step, config, shard_names(config), **inputs)
    return changes, encode.output()


def _evaluate(plan: Plan, config: Config, side: str, split: Node, inputs: dict[str, Output]) -> Output:
    """Adds the evaluation of one system's model, index and passages on the questions of the split."""
    return plan.add(
        StepPath("evaluate", side),
        "evaluate",
        config,
        shards=(),
        questions=split.output(names.DEV_QUESTIONS),
        train_questions=split.output(names.TRAIN_QUESTIONS),
        **inputs,
    ).output()
