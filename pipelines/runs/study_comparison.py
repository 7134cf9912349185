"""The comparison of the rows of a study: their evaluations, its settings, and its table of means over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from multiview import names
from multiview.artifacts.record import Reference, load_record
from multiview.artifacts.staging import stage
from multiview.config import Comparison
from multiview.config.overrides import Overrides, validate
from multiview.errors import InputError
from multiview.evaluation.files import SEEDS_TABLE_FILE
from multiview.evaluation.tables import baseline_of
from multiview.plans.plan import Plan
from multiview.steps.path import StepPath, last_rounds
from multiview.steps.runs import StepState
from pipelines.runs.study import Study


def evaluation_paths(row: str, plan: Plan) -> dict[str, StepPath]:
    """Returns the paths of a plan's evaluations after the last round by the names of their rows: `row`, or `row/SYSTEM`
    where there are several systems.

    Raises InputError for a pipeline without an evaluation.
    """
    last = last_rounds(path for path, node in plan.nodes.items() if names.EVALUATION in node.step.outputs)
    if not last:
        raise InputError(f"{row}: its pipeline evaluates nothing, so there is nothing to compare")
    return {row if len(last) == 1 else f"{row}/{system}": path for system, path in last.items()}


def evaluations(paths: Mapping[str, StepPath], states: Iterable[StepState]) -> dict[str, Reference]:
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
