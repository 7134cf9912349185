"""The rows of a comparison of earlier runs: the evaluations of their systems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from multiview import names
from multiview.artifacts.record import Reference
from multiview.errors import InputError
from multiview.evaluation.costs import check_alike
from multiview.steps.path import StepPath, last_rounds
from multiview.tracking import TrackedRun


@dataclass(frozen=True)
class Row:
    evaluation: Reference
    architecture: str | None


def rows_of_runs(runs: Sequence[TrackedRun]) -> dict[str, Row]:
    """Returns the rows by name: the name of the system, with the end of its run's id where two have one name.

    An evaluation that several runs share is one row. Raises InputError for a run without an evaluation, for a
    single row, and unless all evaluations are of the same questions over the same corpus.
    """
    rows: dict[tuple[str, str], Row] = {}
    for run in runs:
        evaluations = evaluations_of_run(run)
        if not evaluations:
            raise InputError(f"run {run.run.id} has no finished evaluation: let it finish, then compare")
        for system, evaluation in evaluations.items():
            if evaluation not in [row.evaluation for row in rows.values()]:
                rows[system, run.run.id] = Row(evaluation, run.run.architectures.get(system))
    count = Counter(system for system, _ in rows)
    by_name = {
        system if count[system] == 1 else f"{system}:{run.rpartition('-')[2]}": row
        for (system, run), row in rows.items()
    }
    if len(by_name) < 2:
        raise InputError(f"{', '.join(by_name)}: a comparison needs two systems; name another run")
    check_alike({name: row.evaluation.address for name, row in by_name.items()})
    return by_name


def evaluations_of_run(run: TrackedRun) -> dict[str, Reference]:
    """Returns the evaluation of each system after its last round, in the order of the run; of a run found by one
    system's MLflow id, that system's."""
    order = {path: number for number, path in enumerate(run.run.steps)}
    evaluated = [path for path, step in run.steps_of_system().items() if names.EVALUATION in step.outputs]
    # Not in MLflow's order; steps of the run that a rerun was cut out of come last.
    evaluated.sort(key=lambda path: order.get(path, len(order)))
    last = last_rounds(map(StepPath.parse, evaluated))
    return {system: run.steps[str(path)].outputs[names.EVALUATION] for system, path in last.items()}
