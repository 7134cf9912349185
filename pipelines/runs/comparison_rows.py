"""The comparison of earlier runs: their systems' evaluations as the rows of one table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from multiview import names
from multiview.artifacts.record import Reference
from multiview.config import Comparison
from multiview.errors import InputError
from multiview.evaluation.costs import check_alike
from multiview.model.systems import resolve
from multiview.tracking import TrackedRun
from pipelines.plans.plan import Plan
from pipelines.plans.training import add_comparison


@dataclass(frozen=True)
class Row:
    evaluation: Reference
    architecture: str | None


def rows_of_runs(runs: Sequence[TrackedRun]) -> dict[str, Row]:
    """The rows of a comparison of some runs by name: the system, with its run's where two have one name.

    An evaluation that several runs share is one row. Raises InputError for a run without one, for a single row,
    and unless all are of the same questions over the same corpus.
    """
    found: dict[tuple[str, str], Row] = {}
    for run in runs:
        evaluations = evaluations_of(run)
        if not evaluations:
            raise InputError(f"run {run.run.id} has no finished evaluation: let it finish, then compare")
        for system, reference in evaluations.items():
            if reference not in [row.evaluation for row in found.values()]:
                found[system, run.run.id] = Row(reference, run.run.architectures.get(system))
    times = Counter(system for system, _ in found)
    rows = {
        system if times[system] == 1 else f"{system}:{run.rpartition('-')[2]}": row
        for (system, run), row in found.items()
    }
    if len(rows) < 2:
        raise InputError(f"{', '.join(rows)}: a comparison needs two systems; name another run")
    check_alike({name: row.evaluation.address for name, row in rows.items()})
    return rows


def evaluations_of(run: TrackedRun) -> dict[str, Reference]:
    """Each system's evaluation after its last round."""
    last: dict[str, tuple[int, Reference]] = {}
    places = {path: place for place, path in enumerate(run.run.steps)}
    # In the order of the run, not in MLflow's.
    for path, step in sorted(run.steps.items(), key=lambda one: places.get(one[0], len(places))):
        if names.EVALUATION in step.outputs:
            number = re.search(r"/round-(\d+)/", path)
            candidate = int(number[1]) if number else 0, step.outputs[names.EVALUATION]
            system = path.split("/")[0]
            last[system] = max(last.get(system, candidate), candidate, key=lambda one: one[0])
    return {system: reference for system, (_, reference) in last.items()}


def comparison_of(name: str, evaluations: Mapping[str, Reference], settings: Comparison) -> Plan:
    """The plan `name`, which compares evaluations that exist, row by row, and ends with the page about them."""
    plan = Plan(name)
    config = resolve({}).model_copy(update={"comparison": settings})
    add_comparison(plan, config, list(evaluations.values()))
    return plan
