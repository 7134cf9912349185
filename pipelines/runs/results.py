"""What a run ends with on the screen: its table, one question with its matched snippet, what to do next."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from multiview import metric_names, names
from multiview.artifacts.record import load_record
from multiview.artifacts.staging import stage
from multiview.data.passages import PassageLookup
from multiview.data.questions import iterate_questions
from multiview.evaluation.evaluate import METRICS_FILE, QUESTIONS_FILE
from multiview.evaluation.tables import (
    MARK,
    SIGNIFICANCE_FILE,
    best_values,
    legend,
    markdown_table,
    marked_of,
    metric_columns,
)
from multiview.refresh.gate import TITLES
from multiview.refresh.promote import PROMOTION_FILE
from multiview.steps.runs import StepState, finished_outputs


def show(console: Console, states: list[StepState], tracking_uri: str | None) -> None:
    """Print it all; nothing of it for a run without an evaluation, and no address of an MLflow that is not known."""
    if metrics := _metrics(states):
        show_table(console, metrics, _significance(states))
    promotion = _promotion(states)
    if promotion:
        number = promotion["champion"]["number"] if promotion["champion"] else "none"
        outcome = f"{TITLES[promotion['decision']]} ({promotion['says']})"
        console.print(f"Verdict:      {outcome}; the champion is {number}", markup=False)
        if promotion["decision"] == "refuse":
            console.print(f"Challenger:   {promotion['challenger']} can be asked with --index", markup=False)
        console.print()
    evaluated = [state for state in states if state.step == "evaluate"]
    indexes = finished_outputs(states, names.INDEX)
    question = _show_example(console, evaluated[-1]) if evaluated else None
    if tracking_uri:
        local = f"{_command('mlflow')} ui --backend-store-uri {shlex.quote(tracking_uri)}"
        console.print(f"Look at it:   {tracking_uri if tracking_uri.startswith('http') else local}")
    if report := _report(states):
        console.print(f"Report:       {report}", soft_wrap=True, markup=False)
    if indexes:
        asked = shlex.quote(question or "a question")
        answers = [*indexes.values()][-1].address
        if promotion and promotion["champion"]:
            answers = promotion["champion"]["index"]["address"]
        console.print(f"Ask it:       {_command('multiview')} search {asked} --index {answers}")
    if indexes and not promotion:
        run = f"{_command('python')} -m pipelines run comparison"
        console.print(f"Your data:    {run} --set corpus.source=PASSAGES --set questions.source=QUESTIONS")


def show_table(
    console: Console, metrics: Mapping[str, Mapping[str, float]], significance: Mapping[str, Any] | None
) -> None:
    """The table and what its marks mean: drawn on a terminal, Markdown elsewhere."""
    marked = marked_of(significance) if significance else ()
    if console.is_terminal:
        console.print(as_table(metrics, marked))
        console.print(
            "per cent; acc: an answer among the top k passages, gold: the gold passage", style="dim"
        )
    else:
        console.print(markdown_table(metrics, marked), markup=False)
    if significance and (tested := legend(significance)):
        console.print(tested, style="dim", markup=False)
    if console.is_terminal or significance:
        console.print()


def as_table(metrics: Mapping[str, Mapping[str, float]], marked: Collection[tuple[str, str]] = ()) -> Table:
    """A row a system, a column a metric, in per cent; the best of each is bold, `marked` have a mark."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    columns, best = metric_columns(metrics), best_values(metrics)
    wider = {name for _, name in marked}
    for name in columns:
        table.add_column(metric_names.short(name), justify="right")
    for system, values in metrics.items():
        cells = []
        for name in columns:
            value = values.get(name)
            text = "" if value is None else f"{100 * value:.1f}"
            # rich strips what ends a cell that it justifies, and figures should stand below each other.
            end = MARK if (system, name) in marked else " " if name in wider else ""
            pad = " " * (max(len(metric_names.short(name)), len("100.0") + len(end)) - len(text) - len(end))
            style = "bold green" if value == best[name] else ""
            cells.append(Text.assemble(pad, (text, style), end, justify="left"))
        table.add_row(Text(system), *cells)
    return table


def _metrics(states: list[StepState]) -> dict[str, dict[str, float]] | None:
    """System to metric to value, of the last comparison, of both sides of a refresh, or of the last evaluation."""
    if promotion := _promotion(states):
        champion = promotion["champion"]
        first = (
            champion is None or champion["why"] == "first"
        )  # which was measured against an index of nothing
        return {
            state.path.split("/")[0]: json.loads(
                (_folder(state, names.EVALUATION) / METRICS_FILE).read_text()
            )
            for state in states
            if names.EVALUATION in state.outputs and not (first and state.path.startswith("champion/"))
        }
    for state in reversed(states):
        for kind in (names.COMPARISON, names.EVALUATION):
            if kind in state.outputs:
                metrics = json.loads((_folder(state, kind) / METRICS_FILE).read_text())
                return metrics if kind == names.COMPARISON else {state.path.split("/")[0]: metrics}
    return None


def _significance(states: list[StepState]) -> dict[str, Any] | None:
    """What the last comparison says of its differences."""
    compared = [state for state in states if names.COMPARISON in state.outputs]
    if not compared:
        return None
    return json.loads((_folder(compared[-1], names.COMPARISON) / SIGNIFICANCE_FILE).read_text())


def _promotion(states: list[StepState]) -> dict[str, Any] | None:
    """What became of a refresh's challenger."""
    for state in states:
        if names.PROMOTION in state.outputs:
            return json.loads((_folder(state, names.PROMOTION) / PROMOTION_FILE).read_text())
    return None


def _report(states: list[StepState]) -> str | None:
    """Where the page about the last comparison lies."""
    for state in reversed(states):
        if names.REPORT in state.outputs:
            store, record = load_record(state.outputs[names.REPORT].address)
            return f"{store.url}/{record.data}/{names.REPORT_FILE}"
    return None


def _show_example(console: Console, evaluation: StepState) -> str | None:
    """A dev question whose best passage is right, with the snippet that matched; returns the question."""
    rows = pq.read_table(_folder(evaluation, names.EVALUATION) / QUESTIONS_FILE).to_pylist()
    answered = any(row["rank_of_first_answer"] for row in rows)  # else the gold passage must do
    rank = "rank_of_first_answer" if answered else "rank_of_first_gold"
    right = [row for row in rows if row[rank] == 1 and row["top_start"] is not None]
    if not right:
        return None
    questions = {question.qid: question for question in iterate_questions(_input(evaluation, "questions"))}
    passages = PassageLookup(_input(evaluation, "passages")).passages(
        {row["top_passage_id"] for row in right}
    )

    def snippet(row: dict[str, Any]) -> str:
        return passages[row["top_passage_id"]].text[row["top_start"] : row["top_stop"]]

    def telling(row: dict[str, Any]) -> bool:
        """Whether it shows what is meant: the snippet holds the answer, and does not begin the text."""
        return row["top_start"] > 0 and any(a in snippet(row) for a in questions[row["qid"]].answers)

    row = next((row for row in right if telling(row)), right[0])
    asked, passage = questions[row["qid"]], passages[row["top_passage_id"]]
    text = Text(passage.text)
    text.stylize("bold yellow", row["top_start"], row["top_start"] + len(snippet(row).rstrip()))
    lines = Table.grid(padding=(0, 1))
    lines.add_row("Question:", Text(asked.question, "bold"))
    lines.add_row("Passage:", Text.assemble((passage.title, "bold"), ": ", text))
    lines.add_row("Matched:", Text(snippet(row).strip(), "bold yellow"))
    console.print(lines)
    console.print()
    return asked.question


def _folder(state: StepState, kind: str) -> Path:
    return stage(*load_record(state.outputs[kind].address)).path


def _input(state: StepState, name: str) -> Path:
    return stage(*load_record(state.inputs[name][0].address)).path


def _command(name: str) -> str:
    """A program of this environment as one types it: by its path, unless the environment is active."""
    here = Path(sys.executable).parent
    if shutil.which(name) == str(here / name):
        return name
    path = here / name
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
