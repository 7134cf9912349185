"""Descriptions of MLflow runs as Markdown: a run's results, a step's inputs and outputs, and commands to continue."""

from __future__ import annotations

import json
from collections.abc import Iterable

from multiview import names
from multiview.artifacts.record import Reference, read_record, split_address
from multiview.artifacts.store import Store
from multiview.evaluation.files import METRICS_FILE, TABLE_FILE
from multiview.evaluation.tables import escaped, markdown_table
from multiview.steps.path import StepPath, last_rounds
from multiview.steps.runs import Run, StepState
from multiview.tracking.tags import question_tags

DESCRIPTION_CHARACTERS = 5000
"""Characters of a description; MLflow takes 8000 and silently cuts longer ones."""
INPUTS = 12
"""Inputs of a step that are listed; the others are counted."""


def of_run(
    store: Store, run: Run, states: Iterable[StepState], corpus: str | None, compared: str | None = None
) -> str:
    """Returns the description of a run: its subject, its table, and the commands that continue from it.

    `compared` is the address of MLflow's page that compares its systems.
    """
    states = list(states)
    systems = ", ".join(run.architectures)
    subject = f"{run.pipeline}{f' of {systems}' if systems else ''}{f' over {corpus}' if corpus else ''}"
    link = f"[Compare {systems}]({compared}): settings and figures side by side" if compared else ""
    results = (_verdict(store, states), _table(store, states))
    return _joined(subject, _generated(states), _failures(states), *results, link, _next(run, states))


def of_system(store: Store, run: Run, system: str, states: Iterable[StepState], corpus: str | None) -> str:
    """Returns the description of a system: its subject, its figures, and the commands that continue from it; `states`
    are those of its steps."""
    states = list(states)
    subject = f"{system} of run {run.id}{f' over {corpus}' if corpus else ''}"
    return _joined(subject, _generated(states), _failures(states), _table(store, states), _next(run, states))


def of_step(run: Run, state: StepState) -> str:
    """Returns the description of a step: its inputs and outputs."""
    rows = state.config.get("comparison", {}).get("rows", [])
    read = [
        (f"{name} of {rows[number]}" if name == "evaluations" and number < len(rows) else name, reference)
        for name, references in state.inputs.items()
        for number, reference in enumerate(references)
    ]
    lines = [f"| reads {name} | {_address(reference)} |" for name, reference in read[:INPUTS]]
    if len(read) > INPUTS:
        lines.append(f"| reads | {len(read) - INPUTS} more |")
    lines += [f"| makes {kind} | {_address(reference)} |" for kind, reference in state.outputs.items()]
    table = "\n".join(["| | |", "|---|---|", *lines]) if lines else ""
    outputs = [reference.address for reference in state.outputs.values()]
    further = _commands([f"multiview lineage {outputs[0]}"]) if outputs else ""
    return _joined(f"{state.path} of run {run.id}", table, further)


def of_model(run: Run, state: StepState, reference: Reference) -> str:
    """Returns the description of a logged model: the step that made it, and its lineage."""
    return _joined(f"{state.path} of run {run.id}", _commands([f"multiview lineage {reference.address}"]))


def _joined(*sections: str) -> str:
    return "\n\n".join(section for section in sections if section)


def _address(reference: Reference) -> str:
    return f"`{reference.address}`" + (f" {reference.file}" if reference.file else "")


def _generated(states: list[StepState]) -> str:
    """The kinds of questions that were generated; empty where all are labelled."""
    return "; ".join(f"{tag.replace('_', ' ')} {how}" for tag, how in sorted(question_tags(states).items()))


def _failures(states: list[StepState]) -> str:
    failed = [f"- {state.path}: {escaped(state.error or '')}" for state in states if state.status == "failed"]
    return "\n".join(["Failed:", "", *failed]) if failed else ""


def _verdict(store: Store, states: list[StepState]) -> str:
    """The verdict on a refresh's challenger; empty for other runs."""
    found = (_file(store, state, names.VERDICT, names.VERDICT_TEXT_FILE) for state in states)
    text = next((text.decode() for text in found if text), "")
    return text if len(text) < DESCRIPTION_CHARACTERS else text[:DESCRIPTION_CHARACTERS].rpartition("\n")[0]


def _table(store: Store, states: list[StepState]) -> str:
    """The table of the run's comparison, or of its evaluations."""
    for state in states:
        if text := _file(store, state, names.COMPARISON, TABLE_FILE):
            return text.decode() if len(text) < DESCRIPTION_CHARACTERS else ""
    metrics = {
        StepPath.parse(state.path).row: json.loads(text)
        for state in states
        if (text := _file(store, state, names.EVALUATION, METRICS_FILE))
    }
    table = markdown_table(metrics) if metrics else ""
    return f"{table}\nper cent" if table and len(table) < DESCRIPTION_CHARACTERS else ""


def _file(store: Store, state: StepState, kind: str, name: str) -> bytes | None:
    """A file of a step's output; None where the step has no such output, or it is not in this store."""
    if kind not in state.outputs:
        return None
    record = read_record(store, kind, split_address(state.outputs[kind].address)[2])
    return store.read(f"{record.data}/{name}") if record else None


def _next(run: Run, states: list[StepState]) -> str:
    """Commands for the lineage, a search in the last index of each system, and a rerun."""
    made = [state for state in states if state.status in ("done", "found")]
    outputs = {state.path: state.outputs[names.INDEX] for state in made if names.INDEX in state.outputs}
    last = last_rounds(StepPath.parse(path) for path in sorted(outputs))
    indexes = [outputs[str(path)].address for path in last.values()]
    evaluated = [state.path for state in made if state.step == "evaluate"]
    commands = [f"multiview lineage {run.id} --verify"] if made else []
    commands += [f"multiview search QUESTION --index {address}" for address in indexes[:6]]
    commands += [f"python -m pipelines rerun {path} --from {run.id}" for path in evaluated[:1]]
    return _commands(commands)


def _commands(lines: list[str]) -> str:
    return "\n".join(["```", *lines, "```"]) if lines else ""
