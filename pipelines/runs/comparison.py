"""The rows of comparisons: evaluations of earlier runs, or of the rows of a study."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from multiview import names
from multiview.artifacts.record import Reference, load_record
from multiview.artifacts.staging import stage
from multiview.config import Comparison
from multiview.config.overrides import Overrides, validate
from multiview.errors import InputError
from multiview.evaluation.costs import check_alike
from multiview.evaluation.files import SEEDS_TABLE_FILE
from multiview.evaluation.tables import baseline_of
from multiview.plans.plan import Plan
from multiview.steps.path import StepPath, last_rounds
from multiview.steps.runs import StepState
from multiview.tracking import TrackedRun
from pipelines.runs.study import Study


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


def evaluation_paths(row: str, plan: Plan) -> dict[str, StepPath]:
    """Returns the paths of a plan's evaluations after the last round by the names of their rows: `row`, or `row/SYSTEM`
    where there are several systems.

    Raises InputError for a pipeline without an evaluation.
    """
    last = last_rounds(path for path, node in plan.nodes.items() if names.EVALUATION in node.step.outputs)
    if not last:
        raise InputError(f"{row}: its pipeline evaluates nothing, so there is nothing to compare")
    return {row if len(last) == 1 else f"{row}/{system}": path for system, path in last.items()}


def evaluations_of_states(paths: Mapping[str, StepPath], states: Iterable[StepState]) -> dict[str, Reference]:
    """Returns the evaluations that the steps of a run have made, by the names of their rows."""
    outputs = {state.path: state.outputs for state in states}
    return {row: outputs[str(path)][names.EVALUATION] for row, path in paths.items()}


def comparison_settings(study: Study, rows: Sequence[str], shared: Overrides) -> Comparison:
    """Returns the settings of a study's comparison, over those that its rows share.

    Raises InputError for a baseline that is none of its rows, or, with several seeds, none of its systems, and for a
    paper's figures of a row that stands for several systems.
    """
    without_seed = {
        row: plain + row.removeprefix(seeded)
        for row in rows
        for seeded, plain in study.rows_without_seed().items()
        if row == seeded or row.startswith(f"{seeded}/")
    }
    systems = list(dict.fromkeys(without_seed.get(row, row) for row in rows))
    if several := next((row for row in study.paper if row not in systems), None):
        raise InputError(
            f"runs.{several}.paper: its pipeline evaluates several systems, and a figure is of one"
        )
    settings = {
        **shared.get("comparison", {}),
        "rows": tuple(rows),
        "seeds_of": without_seed,
        "paper": study.paper,
    }
    comparison = validate({"comparison": settings}).comparison
    baseline_of(comparison.baseline, systems)
    return comparison


def seeds_table(states: Iterable[StepState]) -> str:
    """Returns the comparison's table of means over seeds, as Markdown."""
    (address,) = [
        state.outputs[names.COMPARISON].address for state in states if names.COMPARISON in state.outputs
    ]
    folder = stage(*load_record(address)).path
    return (folder / SEEDS_TABLE_FILE).read_text()
