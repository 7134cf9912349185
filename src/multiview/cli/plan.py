"""`multiview plan`: the estimate of a pipeline for a corpus that need not exist, as a table in Markdown."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta

from rich.filesize import decimal

from multiview import names
from multiview.artifacts.store import Store
from multiview.config.overrides import Overrides, merge
from multiview.errors import InputError, counted, nearest
from multiview.index.approximate import EXACT, FACTORY
from multiview.plans.estimate import (
    REQUEST_TOKENS,
    START_SECONDS,
    STORED_WORD,
    base_config,
    estimate,
    faiss_bytes,
    requests,
    shards_for,
)
from multiview.plans.request import Request
from multiview.plans.scenario import GPUS, Scenario
from multiview.steps.runs import read_run, read_states


def plan_lines(
    pipeline: str, scenario: Scenario, overrides: Overrides, measured: tuple[Store, str] | None = None
) -> Iterator[str]:
    """Yields the lines of `multiview plan`; `measured` are a store and one of its runs, whose seconds are scaled. The
    number of shards is chosen unless the settings name it. Raises InputError for settings that make no plan."""
    if scenario.gpu not in GPUS:
        raise InputError(f"there is no GPU {scenario.gpu!r}{nearest(scenario.gpu, GPUS)}")
    factors = factors_of(*measured, scenario) if measured else {}
    if "shards" not in overrides.get("corpus", {}):
        overrides = merge(overrides, {"corpus": {"shards": shards_for(pipeline, overrides, scenario)}})
    yield from _table(Request.make(pipeline, overrides), factors, scenario)
    whole = replace(scenario, config=base_config(pipeline, overrides))
    sizes = {kind: decimal(round(whole.view_bytes + faiss_bytes(kind, whole))) for kind in (EXACT, *FACTORY)}
    kinds, shards = ", ".join(f"{kind} {size}" for kind, size in sizes.items()), whole.config.corpus.shards
    yield f"\n{counted(round(whole.view_count), 'view')}; an index of each kind: {kinds}."
    yield f"{counted(shards, 'shard')}: corpus.shards={shards}"
    if whole.config.questions.origin == "llm":
        asked = requests(whole)
        yield f"{asked:,.0f} requests to the language model, about {asked * REQUEST_TOKENS:,.0f} tokens with the answers."
    if measured:
        scaled = ", ".join(f"{step} × {factor:.2g}" for step, factor in sorted(factors.items()))
        yield f"Measured by run {measured[1]}, beside the formulas: {scaled or 'no step is long enough'}."


def factors_of(store: Store, run: str, scenario: Scenario) -> dict[str, float]:
    """Returns, per step, the time that a run took as a multiple of what the formulas give for its counts. Raises
    InputError for a run without embeddings, and for one on processors if GPUs are planned, or the other way round."""
    described, states = read_run(store, run), read_states(store, run)
    outputs = {s.path: next(iter(s.outputs.values())) for s in states if s.finished and s.outputs}
    found = {path: made.record_in(store) for path, made in outputs.items()}
    records = {path: record for path, record in found.items() if record}
    by_kind = {record.kind: record for record in records.values()}
    if names.PASSAGES not in by_kind or names.EMBEDDINGS not in by_kind:
        raise InputError(f"--from {run}: the run has no split and embeddings yet to read rates from")
    devices = {record.environment.get("device", "cpu") for record in records.values()}
    if bool(scenario.gpus) != (devices != {"cpu"}):
        on = ", ".join(sorted(map(str, devices)))
        raise InputError(f"--from {run}: it ran on {on}: plan for the same with --gpus")
    split = by_kind[names.PASSAGES]
    questions = by_kind.get(names.TRAIN_QUESTIONS, split).facts  # of make-questions, if the run has it
    there = replace(
        scenario,
        passages=split.facts["passages"],
        words=sum(file.bytes for file in split.files) / split.facts["passages"] / STORED_WORD,
        questions=questions["train_questions"],
        dev_questions=split.facts["dev_questions"] or questions["dev_questions"],
    )
    request = Request.make(described.pipeline, described.config, described.preset)
    taken, expected = defaultdict[str, float](float), defaultdict[str, float](float)
    for path, cost in estimate(request, there).items():
        node = request.plan.nodes[path]
        shards = [records[str(shard)] for shard in node.paths() if str(shard) in records]
        if len(shards) == len(node.paths()):
            taken[node.step.name] += sum(record.seconds for record in shards)
            expected[node.step.name] += cost.seconds
    # A shorter step's time is mostly its start.
    return {step: taken[step] / expected[step] for step in taken if taken[step] > 2 * START_SECONDS}


def _table(request: Request, factors: Mapping[str, float], s: Scenario) -> Iterator[str]:
    """Yields a row per step, and their sum: steps run one after another."""
    gpus = f"{s.gpus} × {GPUS[s.gpu].name} (computed, not measured)" if s.gpus else "No GPU"
    yield (
        f"{s.passages:,.0f} passages of {s.words:g} words, {s.questions:,} training questions and {s.dev_questions:,} dev "
        f"questions, a model of {s.shape.layers} layers of width {s.shape.width}.\n"
    )
    yield f"{gpus}, pods of {counted(s.cores, 'core')} and {decimal(round(s.memory))}.\n"
    yield "| step | time | GPU hours | memory | GPU memory | disk |\n|---|---|---|---|---|---|"
    seconds = gpu_seconds = disk = 0.0
    for path, cost in estimate(request, s).items():
        taken = cost.seconds * factors.get(request.plan.nodes[path].step.name, 1.0)
        gpu_memory = _within(cost.gpu_memory, GPUS[s.gpu].memory) if cost.gpus else ""
        yield _row(str(path), taken, taken * cost.gpus, cost.disk, _within(cost.memory, s.memory), gpu_memory)
        seconds, gpu_seconds, disk = seconds + taken, gpu_seconds + taken * cost.gpus, disk + cost.disk
    yield _row("in all", seconds, gpu_seconds, disk)


def _row(
    name: str, seconds: float, on_gpus: float, disk: float, memory: str = "", gpu_memory: str = ""
) -> str:
    hours, time = f"{on_gpus / 3600:,.1f}" if on_gpus else "", timedelta(seconds=round(seconds))
    return f"| {name} | {time} | {hours} | {memory} | {gpu_memory} | {decimal(round(disk))} |"


def _within(needed: float, there: float) -> str:
    """The needed bytes, marked as too much if there are fewer."""
    size = decimal(round(needed))
    return size if needed <= there else f"**{size}: too much**"
