"""`multiview plan`: the estimate of a pipeline for a corpus that need not exist."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from multiview.artifacts.store import open_store
from multiview.config import Config
from multiview.config.overrides import Overrides, merge
from multiview.errors import InputError, counted
from multiview.estimates.calibration import calibrate
from multiview.estimates.estimate import base_config, estimate, shards_for, systems_of
from multiview.estimates.model_shape import shape_of
from multiview.estimates.rates import read_rates
from multiview.estimates.text import tables
from multiview.estimates.workload import Hardware, Scenario, Workload, views_of
from multiview.plans.request import Request


def check(workload: Workload, systems: Collection[Config]) -> None:
    """Raises InputError for a part of a passage or of a question, and for more views than any of the systems indexes."""
    for name in ("passages", "questions", "dev_questions"):
        count = getattr(workload, name)
        if count % 1:
            option = "--training-questions" if name == "questions" else f"--{name.replace('_', '-')}"
            raise InputError(f"{option} {count}: give a whole number")
    most = max(map(views_of, systems))
    if workload.views > most and all(config.model.architecture != "sentence" for config in systems):
        raise InputError(
            f"--views {workload.views:g}: the settings index {most:g} per passage at most; set model.views, "
            "generation.queries for dual-cross, or another model.architecture than dpr, which has one"
        )


def plan_lines(
    pipeline: str,
    workload: Workload,
    hardware: Hardware,
    model: str | None,
    overrides: Overrides,
    rates: Path | None,
    calibrated: tuple[str, str] | None,
) -> Iterator[str]:
    """Yields the lines that `multiview plan` prints; `calibrated` are a store and its run that rates are read from.

    The number of shards is chosen unless the settings name it. Raises InputError for settings that make no plan.
    """
    check(workload, systems_of(pipeline, overrides))
    table = read_rates(rates)
    table.device(hardware.gpu)
    shape = shape_of(model or base_config(overrides).model.base)
    scenario = Scenario(workload, shape, hardware, table)
    factors, measured = {}, ""
    if calibrated:
        store, run = calibrated
        calibration = calibrate(open_store(store), run, scenario)
        factors = calibration.factors
        words = (
            ", ".join(f"{step} × {factor:.2g}" for step, factor in sorted(factors.items()))
            or "none is long enough"
        )
        measured = f"Measured by run {run} on {calibration.hardware}, beside the table's rates: {words}."
    if "shards" not in overrides.get("corpus", {}):
        overrides = merge(overrides, {"corpus": {"shards": shards_for(overrides, scenario)}})
    request = Request.make(pipeline, overrides)
    yield from tables(estimate(request, scenario, factors), scenario, base_config(overrides))
    yield ""
    shards = base_config(overrides).corpus.shards
    yield f"{counted(shards, 'shard')}: corpus.shards={shards}"
    if measured:
        yield measured
