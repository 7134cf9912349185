"""The refresh pipeline: brings the champion's index up to date with the corpus, and lets a gate decide about it."""

from multiview import metric_names, names
from multiview.artifacts.record import split_address
from multiview.config import Config
from multiview.config.overrides import Overrides, merge
from multiview.errors import InputError
from multiview.generation.generators import published
from multiview.model.systems import shared
from multiview.plans.data import check_names, generated_queries, generator_of, reads_queries
from multiview.plans.plan import Input, Node, Plan
from multiview.plans.system import index_step
from multiview.steps.path import StepPath

DEFAULTS: Overrides = {"evaluation": {"analyses": []}, "questions": {"max_missing_gold": 1.0}}
"""Default settings of a refresh, below the given ones. Only the gate needs its evaluation, and decides about lost gold
passages by `gate.max_lost_questions`."""


def refresh(overrides: Overrides) -> Plan:
    """Encodes the changes of the corpus, edits the champion's index, evaluates it, and promotes it if the gate passes."""
    config = shared(merge(DEFAULTS, overrides))
    check_names(config)
    _check_gate(config)
    _check_questions(config)
    if config.refresh.model:
        split_address(config.refresh.model, "refresh.model: ")
    plan = Plan("refresh")
    champion = plan.add(StepPath("champion"), "champion", config)
    old, model = champion.output(names.INDEX), champion.output(names.MODEL)
    old_passages, old_model = champion.output(names.PASSAGES), champion.output(names.CHAMPION_MODEL)
    split = plan.add(StepPath("split"), "split-again", config, known=old_passages)
    passages = split.output(names.PASSAGES)
    changes, embeddings = _encode_changes(plan, config, old, model, passages)
    made = {"changes": changes, "model": model, "passages": passages, "embeddings": [embeddings]}
    path, step = StepPath("index", names.CHALLENGER), index_step("refresh-index", config)
    index = plan.add(path, step, config, old=old, **made)
    dev_questions, train_questions = split.output(names.DEV_QUESTIONS), split.output(names.TRAIN_QUESTIONS)
    questions = {"questions": dev_questions, "train_questions": train_questions}
    old_inputs = {"model": old_model, "index": old, "passages": old_passages}
    new_inputs = {"model": model, "index": index, "passages": passages}
    champion_evaluation, challenger_evaluation = (
        plan.add(StepPath("evaluate", system), "evaluate", config, **inputs, **questions)
        for system, inputs in ((names.CHAMPION, old_inputs), (names.CHALLENGER, new_inputs))
    )
    judged = {
        "champion": champion,
        "index": index,
        "passages": passages,
        "champion_evaluation": champion_evaluation,
        "challenger_evaluation": challenger_evaluation,
        "lost_questions": split.output(names.LOST_QUESTIONS),
    }
    verdict = plan.add(StepPath("gate"), "gate", config, **judged)
    decided = {"champion": champion, "verdict": verdict, **new_inputs}
    promotion = plan.add(StepPath("promote"), "promote", config, **decided)
    evaluated = {"index": index, "evaluation": challenger_evaluation}
    told = {"promotion": promotion, "verdict": verdict, "changes": changes, **evaluated}
    plan.add(StepPath("report"), "refresh-report", config, **told)
    if config.export.formats:
        promoted = plan.add(StepPath("champion-now"), "champion-now", config, promotion=promotion)
        indexes = {name: promoted.output(name) for name in promoted.step.forwards}
        plan.add(StepPath("export"), "export", config, **indexes)
    if config.export.qdrant_url:
        plan.add(StepPath("follow-champion"), "follow-champion", config, promotion=promotion)
    return plan


def _check_gate(config: Config) -> None:
    """Raises InputError for a metric of the gate that these settings do not measure."""
    cuts, depth = config.evaluation.at, config.evaluation.depth
    metrics = metric_names.evaluation_metrics(cuts, depth)
    for setting in ("drops", "least"):
        for metric, value in getattr(config.gate, setting).items():
            if value is not None and metric not in metrics:
                raise InputError(
                    f"gate.{setting}: {metric} is not measured: with evaluation.at={list(cuts)} and "
                    f"evaluation.depth={depth} there are {', '.join(metrics)}"
                    + f"; measure it, or set gate.drops.{metric}=null"
                    * (setting == "drops")
                )
    for qid, rank in config.gate.must_find.items():
        if rank > depth:
            raise InputError(
                f"gate.must_find.{qid}: rank {rank} is beyond evaluation.depth={depth}; raise that, or lower the rank"
            )


def _check_questions(config: Config) -> None:
    """Raises InputError if a refresh would have to make its questions, or train its generator of queries."""
    asked = config.questions
    if reads_queries(config) and config.generation.fine_tune and not published(config.generation.model):
        raise InputError(
            "generation.fine_tune: a refresh trains no generator: set generation.model=ADDRESS to that which wrote "
            "the champion's queries, and generation.fine_tune=false"
        )
    if asked.origin != "labelled" and not asked.source and not asked.dev_source:
        raise InputError(
            f"questions.origin={asked.origin}: a refresh makes no questions, and its gate needs some: set "
            "questions.dev_source to labelled ones, or to those of the run that trained the champion, as in "
            "dev_questions/KEY/attempts/*/questions.parquet of its store"
        )


def _encode_changes(
    plan: Plan, config: Config, old: Input, model: Input, passages: Input
) -> tuple[Node, Node]:
    """Adds the changes since the index `old` and their embeddings, with queries if the model reads them."""
    changes_path, encode_path = (StepPath(step, names.CHALLENGER) for step in ("changes", "encode"))
    inputs = {"index": old, "model": model, "passages": passages}
    if not reads_queries(config):
        changes = plan.add(changes_path, "changes", config, **inputs)
        return changes, plan.add(encode_path, "encode", config, model=model, passages=changes)
    generator = generator_of(plan, config)
    changes = plan.add(changes_path, "changes-with-queries", config, **inputs, generator=generator)
    queries = generated_queries(plan, config, generator, changes, names.CHALLENGER)
    inputs = {"model": model, "passages": changes, "queries": queries}
    return changes, plan.add(encode_path, "encode-with-queries", config, **inputs)
