"""`multiview plan`: the estimate of a pipeline for a corpus that need not exist, as a table in Markdown."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import replace

from multiview import names
from multiview.artifacts.record import Record, read_record, split_address
from multiview.artifacts.store import Store
from multiview.config import Config, JsonObject
from multiview.config.overrides import Overrides, merge
from multiview.errors import InputError, counted, nearest
from multiview.model.bases import CONFIG_FILE
from multiview.plans.estimate import (
    GPUS,
    SIZES,
    START_SECONDS,
    STORED_WORD,
    Cost,
    ModelShape,
    Scenario,
    base_config,
    estimate,
    index_bytes,
    shards_for,
    systems_of,
    views_of,
)
from multiview.plans.request import Request
from multiview.steps.runs import read_run, read_states


def plan_lines(
    pipeline: str, scenario: Scenario, overrides: Overrides, measured: tuple[Store, str] | None = None
) -> Iterator[str]:
    """Yields the lines that `multiview plan` prints; `measured` are a store and one of its runs, whose seconds are scaled.

    The number of shards is chosen unless the settings name it. Raises InputError for settings that make no plan.
    """
    if scenario.gpu not in GPUS:
        raise InputError(f"there is no GPU {scenario.gpu!r}{nearest(scenario.gpu, GPUS)}")
    check(scenario, systems_of(pipeline, overrides))
    factors, hardware = factors_of(*measured, scenario) if measured else ({}, "")
    if "shards" not in overrides.get("corpus", {}):
        overrides = merge(overrides, {"corpus": {"shards": shards_for(overrides, scenario)}})
    request = Request.make(pipeline, overrides)
    costs = {
        str(path): replace(cost, seconds=cost.seconds * factors.get(request.plan.nodes[path].step.name, 1.0))
        for path, cost in estimate(request, scenario).items()
    }
    yield from _about(scenario)
    yield ""
    yield from _table(costs, scenario)
    yield ""
    sizes = (
        f"{kind} {size(sum(index_bytes(kind, scenario)))}" for kind in ("exact", "compact", "tiny", "hnsw")
    )
    yield f"An index of each kind: {', '.join(sizes)}."
    shards = base_config(overrides).corpus.shards
    yield f"{counted(shards, 'shard')}: corpus.shards={shards}"
    if measured:
        scaled = ", ".join(f"{step} × {factor:.2g}" for step, factor in sorted(factors.items()))
        yield f"Measured by run {measured[1]} on {hardware}, beside the formulas: {scaled or 'no step is long enough'}."


def check(scenario: Scenario, systems: Collection[Config]) -> None:
    """Raises InputError for a part of a passage or of a question, and for more views than any of the systems indexes."""
    for name in ("passages", "questions", "dev_questions"):
        count = getattr(scenario, name)
        if count % 1:
            option = "--training-questions" if name == "questions" else f"--{name.replace('_', '-')}"
            raise InputError(f"{option} {count}: give a whole number")
    most = max(map(views_of, systems))
    if scenario.views > most and all(config.model.architecture != "sentence" for config in systems):
        raise InputError(
            f"--views {scenario.views:g}: the settings index {most:g} per passage at most; set model.views, "
            "generation.queries for dual-cross, or another model.architecture than dpr, which has one"
        )


def factors_of(store: Store, run: str, scenario: Scenario) -> tuple[dict[str, float], str]:
    """Returns the seconds in the records of a run over those of the formulas for the run's own counts and model, by step,
    and the devices that it ran on. Raises InputError for a run that tells nothing of the scenario's machines."""
    description, records = read_run(store, run), _records(store, run)
    devices = {record.environment.get("device") for record in records.values()} - {None}
    if devices and bool(scenario.gpus) != any(device != "cpu" for device in devices):
        where = "on GPUs: leave out --gpus" if scenario.gpus else "of processors: name the GPUs by --gpus"
        raise InputError(
            f"--from {run}: it ran on {', '.join(sorted(devices))}, which says nothing {where}, or --from"
        )
    request = Request.make(description.pipeline, description.config, description.preset)
    taken: dict[str, float] = defaultdict(float)
    expected: dict[str, float] = defaultdict(float)
    for path, cost in estimate(request, _of_run(store, run, list(records.values()), scenario)).items():
        node = request.plan.nodes[path]
        shards = [records[str(shard)] for shard in node.paths() if str(shard) in records]
        if len(shards) == len(node.paths()):
            taken[node.step.name] += sum(record.seconds for record in shards)
            expected[node.step.name] += cost.seconds - START_SECONDS
    factors = {
        step: seconds / expected[step]
        for step, seconds in taken.items()
        if seconds > 2 * START_SECONDS and expected[step]
    }
    return factors, ", ".join(sorted(devices)) or "unknown"


def _records(store: Store, run: str) -> dict[str, Record]:
    """The record of the first output of each finished step of a run, by the step's path."""
    records = {}
    for state in read_states(store, run):
        if state.finished and state.outputs:
            _, kind, key = split_address(next(iter(state.outputs.values())).address)
            if record := read_record(store, kind, key):
                records[state.path] = record
    return records


def _of_run(store: Store, run: str, records: list[Record], scenario: Scenario) -> Scenario:
    """The scenario with the counts and the model of a run. Raises InputError for a run without embeddings."""
    facts: dict[str, JsonObject] = {record.kind: record.facts for record in records}
    split = next((record for record in records if record.kind == names.PASSAGES), None)
    embeddings = [record.facts for record in records if record.kind == names.EMBEDDINGS]
    if not split or not embeddings:
        raise InputError(
            f"--from {run}: the run has no split and embeddings yet, from which rates could be read"
        )
    made = facts.get(names.TRAIN_QUESTIONS, split.facts)  # of make-questions, if the run has it
    return replace(
        scenario,
        passages=split.facts["passages"],
        views=sum(each["views"] for each in embeddings) / sum(each["passages"] for each in embeddings),
        words=sum(file.bytes for file in split.files) / split.facts["passages"] / STORED_WORD,
        questions=made["train_questions"],
        dev_questions=split.facts["dev_questions"] or made["dev_questions"],
        shape=_shape(store, records) or scenario.shape,
    )


def _shape(store: Store, records: list[Record]) -> ModelShape | None:
    for record in records:
        for file in record.files:
            if record.kind == names.MODEL and file.path.endswith(CONFIG_FILE):
                config = json.loads(store.read(f"{record.data}/{file.path}") or b"{}")
                return ModelShape(*(config[name] for name in SIZES))
    return None


def _about(s: Scenario) -> Iterator[str]:
    views = "1 view" if s.views == 1 else f"{s.views:g} views"
    yield (
        f"{counted(round(s.passages), 'passage')}, {views} each: {counted(round(s.passages * s.views), 'view')} of "
        f"{s.shape.width}; {counted(round(s.questions), 'training question')}, "
        f"{counted(round(s.dev_questions), 'dev question')}; an encoder of {s.shape.parameters / 1e6:,.0f} million "
        "parameters."
    )
    gpus = f"{s.gpus} × {GPUS[s.gpu][0]} (computed from published figures)" if s.gpus else "No GPU"
    yield f"{gpus}, pods of {counted(s.cores, 'core')} and {size(s.memory)}."


def _table(costs: dict[str, Cost], s: Scenario) -> Iterator[str]:
    """Yields a row per step, and their sum: steps run one after another."""
    yield "| step | time | GPU hours | memory | GPU memory | disk |"
    yield "|---|---|---|---|---|---|"
    for path, cost in costs.items():
        hours = f"{cost.seconds * cost.gpus / 3600:,.1f}" if cost.gpus else ""
        gpu_memory = _within(cost.gpu_memory, GPUS[s.gpu][3]) if cost.gpu_memory else ""
        memory = _within(cost.memory, s.memory)
        yield f"| {path} | {duration(cost.seconds)} | {hours} | {memory} | {gpu_memory} | {size(cost.disk)} |"
    seconds, disk = sum(cost.seconds for cost in costs.values()), sum(cost.disk for cost in costs.values())
    hours = sum(cost.seconds * cost.gpus for cost in costs.values()) / 3600
    yield f"| in all | {duration(seconds)} | {f'{hours:,.1f}' if hours else ''} |  |  | {size(disk)} |"


def size(count: float) -> str:
    """Bytes with three figures, in powers of 1000.

    >>> size(258_048_000_000)
    '258 GB'
    """
    for power, unit in ((12, "TB"), (9, "GB"), (6, "MB"), (3, "kB")):
        if count >= 0.9995 * 10**power:
            return (
                f"{count / 10**power:,.3g} {unit}"
                if count < 999.5 * 10**power
                else f"{count / 10**power:,.0f} {unit}"
            )
    return f"{count:.0f} B" if count else "0"


def duration(seconds: float) -> str:
    """Seconds in the largest of the units s, min, h and d that is not below one.

    >>> duration(5400)
    '1.5 h'
    """
    for unit, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * unit or (seconds >= unit and name != "d"):
            return f"{seconds / unit:,.1f} {name}"
    return f"{seconds:.0f} s"


def _within(needed: float, there: float) -> str:
    """Bytes that are needed, with a word where there are fewer."""
    return size(needed) if needed <= there else f"**{size(needed)}: too much**"
