"""The refresh pipeline: the corpus as it is now, an index made from the champion's, and the gate between them."""

from __future__ import annotations

from multiview import metric_names, names
from multiview.config import Config
from multiview.config.overrides import Overrides, merge
from multiview.errors import InputError
from multiview.generation.sources import published
from multiview.model.systems import resolve
from pipelines.plans.plan import Output, Plan, Source, first_output
from pipelines.plans.training import reads_queries

OWN: Overrides = {"evaluation": {"analyses": []}, "questions": {"max_missing_gold": 1.0}}
"""What a refresh sets unless it is told otherwise."""


def refresh(overrides: Overrides) -> Plan:
    """What has changed is encoded, put into the champion's index, measured, and promoted if the gate lets it pass.

    Both sides are measured for the gate alone, and what is wrong with the corpus is for the gate to say: see `OWN`.
    """
    config = resolve(merge(OWN, overrides))
    _check_gate(config)
    plan = Plan("refresh")
    plan.add("champion", "champion", config)
    plan.add("split", "split-again", config, known=Output("champion", names.PASSAGES))
    passages = Output("split", names.PASSAGES)
    old, model = Output("champion", names.INDEX), Output("champion", names.MODEL)
    generator = _generator(plan, config) if reads_queries(config) else None
    changes = first_output(
        plan.add(
            "challenger/changes",
            "changes-with-queries" if generator else "changes",
            config,
            (),
            index=old,
            model=model,
            passages=passages,
            **({"generator": generator} if generator else {}),
        )
    )
    embeddings = _encode(plan, config, model, changes, generator)
    index = first_output(
        plan.add(
            "challenger/index",
            "refresh-index",
            config,
            old=old,
            changes=changes,
            model=model,
            passages=passages,
            embeddings=[embeddings],
        )
    )
    champion_evaluation = _evaluate(
        plan,
        config,
        "champion",
        Output("champion", names.CHAMPION_MODEL),
        old,
        Output("champion", names.PASSAGES),
    )
    challenger_evaluation = _evaluate(plan, config, "challenger", model, index, passages)
    champion = Output("champion", names.CHAMPION)
    verdict = first_output(
        plan.add(
            "gate",
            "gate",
            config,
            champion=champion,
            index=index,
            champion_evaluation=champion_evaluation,
            challenger_evaluation=challenger_evaluation,
        )
    )
    promotion = first_output(
        plan.add(
            "promote",
            "promote",
            config,
            champion=champion,
            verdict=verdict,
            index=index,
            model=model,
            passages=passages,
        )
    )
    plan.add(
        "report", "refresh-report", config, promotion=promotion, verdict=verdict, changes=changes, index=index
    )
    return plan


def _check_gate(config: Config) -> None:
    """Raises InputError for a metric of the gate that these settings do not measure."""
    at, depth = config.evaluation.at, config.evaluation.depth
    known = metric_names.evaluation_metrics(at, depth)
    for setting in ("drops", "least"):
        for name in getattr(config.gate, setting):
            if name not in known:
                raise InputError(
                    f"gate.{setting}: {name} is not measured: with evaluation.at={list(at)} and "
                    f"evaluation.depth={depth} there are {', '.join(known)}"
                )


def _generator(plan: Plan, config: Config) -> Source:
    """What writes queries. Raises InputError where it would have to be trained."""
    if generator := published(config.generation.model):
        return generator
    if config.generation.fine_tune:
        raise InputError(
            "generation.fine_tune: a refresh trains no generator: set generation.model=ADDRESS to that which wrote "
            "the champion's queries, and generation.fine_tune=false"
        )
    return first_output(plan.add("initial-generator", "initial-generator", config))


def _encode(plan: Plan, config: Config, model: Source, changes: Output, generator: Source | None) -> Output:
    """The views of what has changed, read with queries generated for it where there is a generator."""
    shards = tuple(f"shard-{number:02d}" for number in range(config.corpus.shards))
    if generator is None:
        return first_output(
            plan.add("challenger/encode", "encode", config, shards, model=model, passages=changes)
        )
    made = plan.add(
        "challenger/generate-queries",
        "generate-queries",
        config,
        shards,
        generator=generator,
        passages=changes,
    )
    queries = first_output(
        plan.add("challenger/gather-queries", "gather-queries", config, parts=[first_output(made)])
    )
    return first_output(
        plan.add(
            "challenger/encode",
            "encode-with-queries",
            config,
            shards,
            model=model,
            passages=changes,
            queries=queries,
        )
    )


def _evaluate(plan: Plan, config: Config, who: str, model: Source, index: Source, passages: Source) -> Output:
    node = plan.add(
        f"{who}/evaluate",
        "evaluate",
        config,
        model=model,
        index=index,
        passages=passages,
        questions=Output("split", names.DEV_QUESTIONS),
        train_questions=Output("split", names.TRAIN_QUESTIONS),
    )
    return first_output(node)
