"""What a run ends with on the screen: its table, one question with its matched snippet, what to do next."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from pathlib import Path

import pyarrow.parquet as pq
from rich.console import Console
from rich.text import Text

from multiview import names
from multiview.artifacts.record import load_record
from multiview.artifacts.staging import stage
from multiview.data.passages import PassageLookup
from multiview.data.questions import iterate_questions
from multiview.evaluation.compare import TABLE_FILE, markdown_table
from multiview.evaluation.evaluate import METRICS_FILE, QUESTIONS_FILE
from multiview.runs import StepState
from multiview.serving.indexes import index_outputs


def show(console: Console, states: list[StepState], tracking_uri: str) -> None:
    """Print it all; nothing of it for a run without an evaluation."""
    if table := _table(states):
        console.print(table, markup=False)
    evaluated = [state for state in states if state.step == "evaluate"]
    indexes = index_outputs({state.path: state for state in states})
    question = _show_example(console, evaluated[-1]) if evaluated else None
    console.print(f"Look at it:   {_command('mlflow')} ui --backend-store-uri {shlex.quote(tracking_uri)}")
    if indexes:
        asked = shlex.quote(question or "a question")
        console.print(
            f"Ask it:       {_command('multiview')} search {asked} --index {[*indexes.values()][-1]}"
        )
        run = f"{_command('python')} -m pipelines run comparison"
        console.print(f"Your data:    {run} --set corpus.source=PASSAGES --set questions.source=QUESTIONS")


def _table(states: list[StepState]) -> str | None:
    """The last comparison's table, or the last evaluation's as a table of one row."""
    for state in reversed(states):
        if names.COMPARISON in state.outputs:
            return (_folder(state, names.COMPARISON) / TABLE_FILE).read_text(encoding="utf-8")
        if names.EVALUATION in state.outputs:
            metrics = json.loads((_folder(state, names.EVALUATION) / METRICS_FILE).read_text())
            return markdown_table({state.path.split("/")[0]: metrics})
    return None


def _show_example(console: Console, evaluation: StepState) -> str | None:
    """A dev question whose best passage holds its answer, with the snippet that matched; the question."""
    rows = pq.read_table(_folder(evaluation, names.EVALUATION) / QUESTIONS_FILE).to_pylist()
    right = [row for row in rows if row["rank_of_first_answer"] == 1 and row["top_start"] is not None]
    if not right:
        return None
    # Not at the text's very beginning, where any retriever looks; else the first that there is.
    row = next((row for row in right if row["top_start"] > 0), right[0])
    asked = next(q for q in iterate_questions(_input(evaluation, "questions")) if q.qid == row["qid"])
    name = row["top_passage_id"]
    passage = PassageLookup(_input(evaluation, "passages")).passages([name])[name]
    text = Text(passage.text)
    text.stylize("bold yellow", row["top_start"], row["top_stop"])
    snippet = passage.text[row["top_start"] : row["top_stop"]].strip()
    console.print(Text.assemble("Question:     ", (asked.question, "bold")))
    console.print(Text.assemble("Passage:      ", (passage.title, "bold"), " — ", text))
    console.print(
        Text.assemble("Its snippet:  ", (snippet, "bold yellow"), f"  (answer: {asked.answers[0]})")
    )
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
