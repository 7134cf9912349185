"""The estimate of a plan as Markdown tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from multiview.config import Config
from multiview.config.overrides import merge, validate
from multiview.errors import counted
from multiview.estimates.cost import Cost
from multiview.estimates.estimate import Estimate
from multiview.estimates.index_bytes import KINDS, index_bytes
from multiview.estimates.rates import Rates
from multiview.estimates.step_costs import cost_of
from multiview.estimates.workload import Hardware, Scenario

HEADER = ("step", "tasks", "time", "GPU hours", "memory", "GPU memory", "disk", "longest part")
KINDS_HEADER = (
    "kind of index",
    "disk",
    "bytes per passage",
    "building",
    "memory of building",
    "memory of a search",
)

UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B"))


def tables(estimated: Estimate, scenario: Scenario, config: Config) -> Iterator[str]:
    """Yields the lines of all tables: the amounts, the steps, and the kinds of index."""
    yield from about(estimated, scenario)
    yield ""
    yield from step_table(estimated, scenario)
    yield ""
    yield from kind_table(scenario, config)


def about(estimated: Estimate, scenario: Scenario) -> Iterator[str]:
    """Yields two lines: the data and the model, and the machines of the steps."""
    load, shape, machines = scenario.workload, scenario.shape, estimated.hardware.values()
    each = "1 view" if load.views == 1 else f"{load.views:g} views"
    yield (
        f"{counted(round(load.passages), 'passage')}, {each} each: {counted(round(load.all_views), 'view')} of "
        f"{shape.width}; {counted(round(load.questions), 'training question')}, "
        f"{counted(round(load.dev_questions), 'dev question')}; an encoder of {shape.parameters / 1e6:,.0f} million "
        "parameters."
    )
    cores, memory = ({getattr(each, name) for each in machines} for name in ("cores", "memory"))
    pods = (
        f"pods of {_from_to(cores, str)} {'core' if cores == {1} else 'cores'} and {_from_to(memory, size)}"
    )
    if gpus := {each.gpus for each in machines if each.gpus}:
        devices = dict.fromkeys(scenario.rates.device(each.gpu).name for each in machines if each.gpus)
        yield (
            f"{_from_to(gpus, str)} × {' or '.join(devices)}, {pods}; times of GPUs are computed from published figures, "
            "not measured."
        )
    else:
        yield f"No GPU, {pods}."


def step_table(estimated: Estimate, scenario: Scenario) -> Iterator[str]:
    """Yields a row per step, and their sum."""
    yield from _table(HEADER)
    for path, cost in estimated.costs.items():
        found = ["", "found", *[""] * (len(HEADER) - 3)]
        yield _row(
            str(path),
            *(found if path in estimated.found else _cells(cost, estimated.hardware[path], scenario.rates)),
        )
    gpu_hours = f"{estimated.gpu_seconds / 3600:,.1f}" if estimated.gpu_seconds else ""
    yield _row("in all", "", duration(estimated.seconds), gpu_hours, "", "", size(estimated.disk), "")


def kind_table(scenario: Scenario, config: Config) -> Iterator[str]:
    """Yields a row per kind of index."""
    load, dim = scenario.workload, scenario.shape.width
    yield from _table(KINDS_HEADER)
    for kind in KINDS:
        of_kind = validate(merge(config.model_dump(mode="json"), {"index": {"kind": kind}}))
        built, searched = (cost_of(step, of_kind, scenario) for step in ("index", "evaluate"))
        disk = index_bytes(kind, load.passages, load.all_views, dim)
        yield _row(
            kind,
            size(disk),
            f"{disk / load.passages:,.0f}",
            duration(built.seconds),
            _within(built.memory, scenario.of("index").hardware.memory),
            _within(searched.memory, scenario.of("evaluate").hardware.memory),
        )


def size(count: float) -> str:
    """Bytes with three figures, in powers of 1000.

    >>> size(258_048_000_000)
    '258 GB'
    """
    for unit, name in UNITS:
        if count >= 0.9995 * unit:
            return f"{count / unit:.3g} {name}" if count < 999.5 * unit else f"{count / unit:,.0f} {name}"
    return "0"


def duration(seconds: float) -> str:
    """Seconds in the largest of the units s, min, h and d that is not below one.

    >>> duration(5400)
    '1.5 h'
    """
    for unit, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * unit or (seconds >= unit and name != "d"):
            return f"{seconds / unit:,.1f} {name}"
    return f"{seconds:.0f} s"


def _from_to(values: Collection[float], text: Callable[[Any], str]) -> str:
    """The smallest and the largest value, or the only one."""
    return " to ".join(dict.fromkeys(text(each) for each in (min(values), max(values))))


def _cells(cost: Cost, hardware: Hardware, rates: Rates) -> list[str]:
    longest = ""
    if cost.limit != "start":
        longest = f"{cost.limit} ({cost.parts[cost.limit] / sum(cost.parts.values()):.0%})"
    gpu_memory = ""
    if cost.gpu_memory:
        gpu_memory = _within(cost.gpu_memory, rates.device(hardware.gpu).memory)
    return [
        f"{cost.tasks}, {cost.at_once} at once" if cost.tasks > 1 else "1",
        duration(cost.seconds),
        f"{cost.gpu_seconds / 3600:,.1f}" if cost.gpus else "",
        _within(cost.memory, hardware.memory),
        gpu_memory,
        size(cost.disk),
        longest,
    ]


def _within(needed: float, there: float) -> str:
    """Bytes that are needed, with a word where there are fewer."""
    return size(needed) if needed <= there else f"**{size(needed)}: too much**"


def _table(header: Sequence[str]) -> Iterator[str]:
    yield _row(*header)
    yield "|" + "---|" * len(header)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
