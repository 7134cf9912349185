"""The training pipeline: split, BM25 negatives, up to two rounds, evaluation; and the comparison
of several systems over the same split, BM25 negatives and questions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from multiview import names
from multiview.artifacts.record import Reference, load_record
from multiview.artifacts.staging import stage
from multiview.config import Config, Model
from multiview.config.overrides import Overrides, validate
from multiview.errors import InputError
from multiview.evaluation.tables import baseline_of
from multiview.generation.sources import published
from multiview.model.bases import SETTINGS_FILE
from multiview.model.layouts import architecture, check
from multiview.model.systems import resolve, resolve_systems, stage_settings
from pipelines.plans.plan import Output, Plan, Source, first_output


@dataclass(frozen=True)
class Data:
    """What all systems share."""

    passages: Output
    train_questions: Output
    dev_questions: Output
    negatives: Output
    shards: tuple[str, ...]
    queries: Output | None
    """Generated for the passages, where a system needs them."""


def training(overrides: Overrides) -> Plan:
    """One system, named by its architecture, from corpus to metrics."""
    config = resolve(overrides)
    plan = Plan("training")
    add_system(plan, config.model.architecture, config, add_data(plan, config, [config]))
    return plan


def comparison(overrides: Overrides) -> Plan:
    """Several systems, and BM25, side by side."""
    systems = resolve_systems(overrides)
    config = validate(overrides)
    plan = Plan("comparison")
    data = add_data(plan, config, systems.values())
    evaluations: dict[str, Source] = {
        name: add_system(plan, name, system, data) for name, system in systems.items()
    }
    if config.comparison.bm25:
        node = plan.add(
            "bm25/evaluate",
            "evaluate-bm25",
            config,
            passages=data.passages,
            questions=data.dev_questions,
        )
        evaluations["bm25"] = first_output(node)
    add_fusions(plan, config, evaluations, data)
    rows = config.comparison.rows or tuple(evaluations)
    if sorted(rows) != sorted(evaluations):
        raise InputError(f"comparison.rows: name each of {', '.join(evaluations)} once")
    baseline_of(config.comparison.baseline, rows)
    config = config.model_copy(update={"comparison": config.comparison.model_copy(update={"rows": rows})})
    add_comparison(plan, config, [evaluations[row] for row in rows])
    return plan


def add_comparison(plan: Plan, config: Config, evaluations: Sequence[Source]) -> None:
    """Compare evaluations, which are those of `comparison.rows`, and make a page about them."""
    compared = plan.add("compare", "compare", config, evaluations=[*evaluations])
    plan.add("report", "report", config, comparison=first_output(compared), evaluations=[*evaluations])


def add_fusions(plan: Plan, config: Config, evaluations: dict[str, Source], data: Data) -> None:
    """Rows of systems fused with BM25. Raises InputError where one of the two is not evaluated."""
    for system in config.comparison.fusion:
        row = f"{system}-bm25"
        if not {system, "bm25"} <= set(evaluations) or row in evaluations:
            raise InputError(
                f"comparison.fusion: {system} and bm25 must be rows, and {row} must not be; "
                f"there are {', '.join(evaluations)}"
            )
        node = plan.add(
            f"{row}/evaluate",
            "evaluate-fusion",
            config,
            evaluations=[evaluations[system], evaluations["bm25"]],
            passages=data.passages,
            questions=data.dev_questions,
        )
        evaluations[row] = first_output(node)


def add_data(plan: Plan, config: Config, systems: Iterable[Config]) -> Data:
    plan.add("split", "split", config)
    passages = Output("split", names.PASSAGES)
    questions = Output("split", names.TRAIN_QUESTIONS)
    dev_questions = Output("split", names.DEV_QUESTIONS)
    negatives = plan.add("bm25-negatives", "bm25-negatives", config, passages=passages, questions=questions)
    shards = tuple(f"shard-{number:02d}" for number in range(config.corpus.shards))
    data = Data(passages, questions, dev_questions, first_output(negatives), shards, None)
    if any(reads_queries(system) or system.train.warm_up for system in systems):
        data = replace(data, queries=add_queries(plan, config, data))
    return data


def add_queries(plan: Plan, config: Config, data: Data) -> Output:
    """Generate queries for all passages, with a generator that may be fine-tuned first, and measure them."""
    generator: Source | None = published(config.generation.model)
    if generator is None:
        generator = first_output(plan.add("initial-generator", "initial-generator", config))
    if config.generation.fine_tune:
        node = plan.add(
            "train-generator",
            "train-generator",
            config,
            base=generator,
            passages=data.passages,
            questions=data.train_questions,
        )
        generator = first_output(node)
    node = plan.add(
        "generate-queries",
        "generate-queries",
        config,
        data.shards,
        generator=generator,
        passages=data.passages,
    )
    made: list[Source] = [first_output(node)]
    plan.add("evaluate-queries", "evaluate-queries", config, queries=made, questions=data.dev_questions)
    return first_output(plan.add("gather-queries", "gather-queries", config, parts=made))


def reads_queries(config: Config) -> bool:
    """Whether passages are encoded together with generated queries."""
    return architecture(config.model.architecture).reads_queries


def add_system(plan: Plan, system: str, config: Config, data: Data) -> Output:
    """Train, encode, index and evaluate one system; its evaluation."""
    start = pretrained = add_warm_up(plan, system, config, _start(plan, system, config), data)
    model, index = start, None
    negatives: Source = data.negatives
    for number in range(1, config.train.rounds + 1):
        if index is not None:
            negatives = first_output(
                plan.add(
                    f"{system}/round-{number}/mine",
                    "mine",
                    config,
                    model=model,
                    index=index,
                    passages=data.passages,
                    questions=data.train_questions,
                    bm25_negatives=data.negatives,
                )
            )
            start = model if config.train.start_from == "round_one" else pretrained
        model = first_output(
            plan.add(
                f"{system}/round-{number}/train",
                "train",
                stage_settings(config, "round_two" if number == 2 else None),
                start=start,
                passages=data.passages,
                questions=data.train_questions,
                negatives=negatives,
            )
        )
        index = add_index(plan, f"{system}/round-{number}", config, model, data)
        if config.evaluation.each_round and number < config.train.rounds:
            between = config.evaluation.model_copy(update={"analyses": ()})
            measured = config.model_copy(update={"evaluation": between})
            add_evaluation(plan, f"{system}/round-{number}", measured, model, index, data)
    if index is None:
        index = add_index(plan, f"{system}/round-0", config, model, data)
    return add_evaluation(plan, f"{system}/round-{config.train.rounds}", config, model, index, data)


def add_evaluation(
    plan: Plan, place: str, config: Config, model: Source, index: Output, data: Data
) -> Output:
    evaluation = plan.add(
        f"{place}/evaluate",
        "evaluate",
        config,
        model=model,
        index=index,
        passages=data.passages,
        questions=data.dev_questions,
        train_questions=data.train_questions,
    )
    return first_output(evaluation)


def add_warm_up(plan: Plan, system: str, config: Config, start: Source, data: Data) -> Source:
    """The model that the rounds start from: `start`, or that trained on generated queries."""
    if not config.train.warm_up:
        return start
    assert data.queries is not None
    node = plan.add(
        f"{system}/warm-up/train",
        "warm-up",
        stage_settings(config, "warm_up"),
        start=start,
        passages=data.passages,
        queries=data.queries,
    )
    return first_output(node)


def add_index(plan: Plan, place: str, config: Config, model: Source, data: Data) -> Output:
    step, inputs = "encode", {"model": model, "passages": data.passages}
    if reads_queries(config):
        assert data.queries is not None
        step, inputs = "encode-with-queries", {**inputs, "queries": data.queries}
    embeddings = plan.add(f"{place}/encode", step, config, data.shards, **inputs)
    index = plan.add(
        f"{place}/index",
        "index",
        config,
        model=model,
        passages=data.passages,
        embeddings=[first_output(embeddings)],
    )
    return first_output(index)


def _start(plan: Plan, system: str, config: Config) -> Source:
    if not config.train.model:
        return first_output(plan.add(f"{system}/initial-model", "initial-model", config))
    store, record = load_record(config.train.model)
    if record.kind != names.MODEL:
        raise InputError(f"train.model: {config.train.model} is the address of {record.kind}, not of a model")
    settings = stage(store, record, SETTINGS_FILE).path / SETTINGS_FILE
    model = Model.model_validate_json(settings.read_bytes())
    if model.architecture != config.model.architecture:
        raise InputError(
            f"train.model: {config.train.model} is a {model.architecture} model: set model.architecture={model.architecture}"
        )
    check(model, config.train)
    return Reference(address=f"{store.url}/{record.folder}", digest=record.digest)
