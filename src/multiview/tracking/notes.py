"""The description of a run in MLflow, as Markdown: its results, and commands to continue."""

from __future__ import annotations

import json
from collections.abc import Iterable

from multiview import names
from multiview.artifacts.record import read_record, split_address
from multiview.artifacts.store import Store
from multiview.evaluation.files import METRICS_FILE, TABLE_FILE
from multiview.evaluation.tables import escaped, markdown_table
from multiview.steps.path import StepPath, last_rounds
from multiview.steps.runs import Run, StepState
from multiview.tracking.tags import question_tags

DESCRIPTION_CHARACTERS = 5000
"""Characters of a description; MLflow cuts longer ones than 8000 without a word."""


def of_run(store: Store, run: Run, states: Iterable[StepState], corpus: str | None) -> str:
    """Returns the description of a run: its subject, its table, and the commands that continue from it."""
    states = list(states)
    systems = ", ".join(run.architectures)
    subject = f"{run.pipeline}{f' of {systems}' if systems else ''}{f' over {corpus}' if corpus else ''}"
    failed = [f"- {state.path}: {escaped(state.error or '')}" for state in states if state.status == "failed"]
    sections = (
        subject,
        "; ".join(f"{tag.replace('_', ' ')} {how}" for tag, how in sorted(question_tags(states).items())),
        "\n".join(["Failed:", "", *failed]) if failed else "",
        _verdict(store, states),
        _table(store, states),
        _next(run, states),
    )
    return "\n\n".join(section for section in sections if section)


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
    return "\n".join(["```", *commands, "```"]) if commands else ""
