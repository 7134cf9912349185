"""The training pipeline: split, BM25 negatives, up to two rounds, evaluation; and the comparison
of several systems over the same split, BM25 negatives and questions."""

from __future__ import annotations

from dataclasses import dataclass

from multiview import names
from multiview.artifacts.record import Reference, load_record
from multiview.artifacts.staging import stage
from multiview.config import Config, Model
from multiview.errors import InputError
from multiview.model.bases import SETTINGS_FILE
from multiview.model.layouts import check
from multiview.overrides import Overrides, resolve, resolve_systems, round_settings, validate
from pipelines.plan import Output, Plan, Source, first_output


@dataclass(frozen=True)
class Data:
    """What all systems share."""

    passages: Output
    train_questions: Output
    dev_questions: Output
    negatives: Output
    shards: tuple[str, ...]


def training(overrides: Overrides) -> Plan:
    """One system, named by its architecture, from corpus to metrics."""
    config = resolve(overrides)
    plan = Plan("training")
    add_system(plan, config.model.architecture, config, add_data(plan, config))
    return plan


def comparison(overrides: Overrides) -> Plan:
    """Several systems, and BM25, side by side."""
    systems = resolve_systems(overrides)
    config = validate(overrides)
    plan = Plan("comparison")
    data = add_data(plan, config)
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
    config = config.model_copy(update={"comparison": config.comparison.model_copy(update={"rows": rows})})
    plan.add("compare", "compare", config, evaluations=[evaluations[row] for row in rows])
    return plan


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


def add_data(plan: Plan, config: Config) -> Data:
    plan.add("split", "split", config)
    passages = Output("split", names.PASSAGES)
    questions = Output("split", names.TRAIN_QUESTIONS)
    negatives = plan.add("bm25-negatives", "bm25-negatives", config, passages=passages, questions=questions)
    shards = tuple(f"shard-{number:02d}" for number in range(config.corpus.shards))
    return Data(passages, questions, Output("split", names.DEV_QUESTIONS), first_output(negatives), shards)


def add_system(plan: Plan, system: str, config: Config, data: Data) -> Output:
    """Train, encode, index and evaluate one system; its evaluation."""
    start = pretrained = _start(plan, system, config)
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
                round_settings(config, number),
                start=start,
                passages=data.passages,
                questions=data.train_questions,
                negatives=negatives,
            )
        )
        index = add_index(plan, f"{system}/round-{number}", config, model, data)
    if index is None:
        index = add_index(plan, f"{system}/round-0", config, model, data)
    evaluation = plan.add(
        f"{system}/round-{config.train.rounds}/evaluate",
        "evaluate",
        config,
        model=model,
        index=index,
        passages=data.passages,
        questions=data.dev_questions,
        train_questions=data.train_questions,
    )
    return first_output(evaluation)


def add_index(plan: Plan, place: str, config: Config, model: Source, data: Data) -> Output:
    embeddings = plan.add(
        f"{place}/encode", "encode", config, data.shards, model=model, passages=data.passages
    )
    index = plan.add(f"{place}/index", "index", config, embeddings=[first_output(embeddings)])
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


PIPELINES = {"training": training, "comparison": comparison}
