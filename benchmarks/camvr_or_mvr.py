"""Does CAMVR beat MVR where each passage has one question? Both are trained side by side within a budget of minutes.

    python -m benchmarks.camvr_or_mvr --minutes 6 --out "${OUT:-measured}"

Where a machine hands back only one folder, give that one as `--out`: nothing else is kept.

The runs are those of the study `one-question` with these rows and SETTINGS, step by step, without MLflow and in a store
that is thrown away afterwards, or in `--store`, where the same command continues them. Without `--steps`, a short
training of both at once measures the time of a step, and so the number of steps that the minutes allow, which the
learning rate and the temperature need in advance. If they turn out slower, each training ends at its first validation
in the minutes' last fifth, with the best model so far: then compare the systems by the steps that both have in
`curve.md`. Nothing ends early with `--steps` or `--store`, where a shorter training would be taken for the whole one.
More questions are held out than in the preset, as 100 would not tell two systems apart. `--out` gets `curve.jsonl`, a
line per validation once the next step is logged; `curve.md`; and, at the end, each system's metrics and analyses
(`figures.json`) and their comparison (`comparison.md`).

On two cores, a step of 32 questions takes some ten seconds: name a store, `--steps 500 --set train.batch_size=32
--set train.checkpoint_steps=20 --set train.precision=float32 --set encode.compute=float32`, and start it again
whenever it stops.
"""

from __future__ import annotations

import faulthandler
import json
import math
import multiprocessing
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple
from unittest import mock

import torch
import typer

from multiview import metric_names
from multiview.artifacts.record import Reference, load_record
from multiview.artifacts.staging import stage
from multiview.artifacts.store import LocalStore, Store
from multiview.config import Comparison
from multiview.config.overrides import gather
from multiview.evaluation.files import METRICS_FILE, TABLE_FILE
from multiview.plans.comparison import comparison_of_evaluations
from multiview.plans.plan import Node, Plan
from multiview.plans.request import Request, describe
from multiview.steps.events import read_metrics
from multiview.steps.runs import Run, StepState, read_state
from pipelines.runs.local import execute
from pipelines.runs.study import read_study

STUDY, PRESET = "one-question", "squad-viewers"
ROWS = ("mvr-avq1", "camvr-avq1")
SETTINGS = (
    *("questions.limit=null", "model.init=random", "model.normalise=false", "model.scale=null"),
    *("train.negatives=1", "train.batch_size=64", "train.epochs=12", "train.attention_dropout=0.1"),
    *("train.validate_steps=295", "train.temperature={schedule: annealed, clock: progress}"),
    *("encode.index_padding_views=true", "encode.compute=bfloat16"),
    "evaluation.analyses=[each_view, answer_view, attention, usage, cosine]",
)
FINER = ("train.validation_questions=500", "train.validation_passages=2000", "train.checkpoint_steps=1000000")
"""Over SETTINGS: a less noisy curve, and no checkpoints."""
PACE_STEPS = 60
VALIDATIONS = 24
"""How often each system is validated after its first step."""
ENDING = 0.2
"""The share of the minutes that encoding all passages and evaluating take."""
MRR = metric_names.of_validation(metric_names.MRR)
PRINTED = (f"{metric_names.accuracy_at(5)}/", f"{metric_names.SHARE_OF_GOLD}/")
"""The single views' figures in `figures.json` that are also printed."""
SHOWN_SECONDS = 5.0

Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="SETTING=VALUE", help="Over all others.")
]


class Pace(NamedTuple):
    """How fast a system trains."""

    step: float
    """Seconds of a step."""
    validation: float
    """Seconds of a validation."""


class Row(NamedTuple):
    """A system, as the study runs it."""

    plan: Plan
    run: Run

    def until(self, step: str) -> Row:
        """The row's steps up to and including the first one with this name."""
        names = [node.step.name for node in self.plan.nodes.values()]
        nodes = dict([*self.plan.nodes.items()][: names.index(step) + 1])
        return Row(replace(self.plan, nodes=nodes), self.run)


def study_rows(seed: int, settings: Sequence[str], others: Sequence[str], store: Store) -> dict[str, Row]:
    """The study's rows, as `python -m pipelines study` makes them, and CAMVR with each setting in `others`."""
    document = read_study(STUDY).chosen(ROWS, [seed])

    def row(name: str, given: Sequence[str]) -> Row:
        overrides = document.overrides(gather(PRESET, given))[f"{name}/seed-{seed}"]
        request = Request.make(document.pipeline, overrides, PRESET)
        return Row(request.plan, describe(request, store))

    rows = {name: row(name, settings) for name in ROWS}
    return rows | {f"{ROWS[1]} {each}": row(ROWS[1], [*settings, each]) for each in others}


def run(row: Row, folder: Path, until: float = math.inf) -> None:
    """Runs or finds a row's steps, in the store in `folder`; its training ends at the first validation after `until`."""
    from multiview.training.validation import ValidationCallback

    exhausted = ValidationCallback._exhausted
    with mock.patch.object(
        ValidationCallback, "_exhausted", lambda self: exhausted(self) or time.time() > until
    ):
        execute(row.plan, row.run, LocalStore(folder))


def ready() -> None:
    """Loads what training needs while the data are read elsewhere, and from now on dumps its stack every minute."""
    faulthandler.dump_traceback_later(60, repeat=True)
    import multiview.training.train  # noqa: F401

    torch.ones(1, device="cuda" if torch.cuda.is_available() else "cpu")


def node_of(row: Row, step: str) -> Node:
    """The row's step with this name."""
    return next(node for node in row.plan.nodes.values() if node.step.name == step)


def state_of(store: Store, row: Row, step: str) -> StepState | None:
    """The state of the row's step with this name, once it has begun."""
    return read_state(store, row.run.id, str(node_of(row, step).path))


def output(store: Store, row: Row, step: str) -> Reference:
    """The first output of a step that is done."""
    state = state_of(store, row, step)
    assert state is not None
    return next(iter(state.outputs.values()))


def folder_of(store: Store, row: Row, step: str) -> Path:
    """The files of the first output of a step that is done."""
    return stage(*load_record(output(store, row, step).address)).path


def curve(store: Store, row: Row) -> dict[int, dict[str, float]]:
    """All metrics of a row's training so far, by step; `time` is the Unix time of the step's last one."""
    state = state_of(store, row, "train")
    found: dict[int, dict[str, float]] = {}
    for event in read_metrics(store, state.attempt) if state and state.attempt else ():
        if event.step is not None:
            found.setdefault(event.step, {})[event.name] = event.value
            found[event.step]["time"] = event.time / 1000
    return found


def pace(measured: Mapping[int, Mapping[str, float]]) -> Pace:
    """The pace of a training of PACE_STEPS steps, which is validated at the last one, before its loss is logged."""
    last = max(measured)
    logged = [step for step in measured if 0 < step < last]
    first, before = logged[0], logged[-1]
    step = (measured[before]["time"] - measured[first]["time"]) / (before - first)
    return Pace(step, max(0.0, measured[last]["time"] - measured[before]["time"] - (last - before) * step))


def all_steps(store: Store, row: Row) -> int:
    """The number of steps of a training that runs for all its epochs."""
    _, record = load_record(output(store, row, "train").address)
    node = node_of(row, "train")
    # The record's settings leave out those that have their default.
    return round(node.step.parse(node.config).train.epochs * record.facts["steps_per_epoch"])


def steps_within(seconds: float, paces: Iterable[Pace]) -> int:
    """The number of steps, with their validations, that the slowest system can do in this time."""
    return max(VALIDATIONS, int(min((seconds - VALIDATIONS * each.validation) / each.step for each in paces)))


class Curves:
    """The validations of all rows, written and printed as soon as they are done."""

    def __init__(self, store: Store, rows: Mapping[str, Row], out: Path) -> None:
        self._store, self._rows, self._out = store, rows, out
        (out / "curve.jsonl").unlink(missing_ok=True)
        self._mrr: dict[str, dict[int, float]] = {name: {} for name in rows}

    def follow(self, trainings: Sequence[Future[None]]) -> None:
        """Shows what is new until all trainings have ended. Raises the first exception of one."""
        while wait(trainings, SHOWN_SECONDS).not_done:
            self.show()
        self.show(ended=True)
        for training in trainings:
            training.result()

    def show(self, ended: bool = False) -> None:
        """Appends new validations, and rewrites the table. A training's last step may lack metrics until it has `ended`."""
        for name, row in self._rows.items():
            loss, metrics_by_step = float("nan"), curve(self._store, row)
            for step, metrics in sorted(metrics_by_step.items()):
                loss = metrics.get("loss", loss)
                whole = ended or step < max(metrics_by_step)
                if MRR not in metrics or step in self._mrr[name] or not whole:
                    continue
                self._mrr[name][step] = metrics[MRR]
                seconds = round(metrics["time"] - metrics_by_step[0]["time"], 1)
                line = json.dumps({"system": name, "step": step, "seconds": seconds, "loss": loss, **metrics})
                with (self._out / "curve.jsonl").open("a") as file:
                    file.write(f"{line}\n")
                print(f"{name:<12} step {step:>6,}  {seconds:>6.1f} s  MRR@10 {metrics[MRR]:.3f}", flush=True)
        (self._out / "curve.md").write_text(self.table())

    def table(self) -> str:
        """MRR@10 by step, and the step from which each of the others stays ahead of MVR."""
        mvr, *others = self._mrr.values()
        steps = sorted(set(mvr).intersection(*others))
        lines = [f"| step | {' | '.join(self._mrr)} |", f"| ---: |{' ---: |' * len(self._mrr)}"]
        lines += [
            f"| {step:,} | {' | '.join(f'{of[step]:.3f}' for of in self._mrr.values())} |" for step in steps
        ]
        for name, of in [*self._mrr.items()][1:]:
            behind = [step for step in steps if of[step] <= mvr[step]]
            ahead = [step for step in steps if not behind or step > behind[-1]]
            lead = f"from step {ahead[0]:,} on" if ahead else "not at the end"
            lines.append(f"\n{name} is ahead of {ROWS[0]} in MRR@10 {lead}.")
        return "\n".join(lines) + "\n"


def figures(store: Store, row: Row) -> dict[str, float]:
    """The metrics of a row's evaluation and of its analyses."""
    folder = folder_of(store, row, "evaluate")
    files = [folder / METRICS_FILE, folder / "analyses" / METRICS_FILE]
    return {name: value for file in files for name, value in json.loads(file.read_text()).items()}


def compared(store: LocalStore, rows: Mapping[str, Row]) -> str:
    """The table of all rows, with its tests of significance."""
    evaluations = {name: output(store, row, "evaluate") for name, row in rows.items()}
    settings = Comparison(rows=tuple(rows), baseline=ROWS[0])
    request = Request(comparison_of_evaluations("study", evaluations, settings), {})
    row = Row(request.plan, describe(request, store)).until("compare")
    run(row, store.root)
    return (folder_of(store, row, "compare") / TABLE_FILE).read_text()


def main(
    minutes: Annotated[float, typer.Option(help="All that it may take.")] = 6,
    out: Annotated[Path, typer.Option(help="The folder of what is found.")] = Path("measured"),
    seed: Annotated[int, typer.Option(help="The seed of all rows.")] = 0,
    steps: Annotated[
        int | None, typer.Option(help="Steps of each row; default: as the minutes allow.")
    ] = None,
    kept: Annotated[
        Path | None, typer.Option("--store", help="A folder for the runs, to continue them; default: none.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="SETTING=VALUE", help="Over all others; repeatable.")
    ] = None,
    others: Annotated[
        list[str] | None,
        typer.Option("--camvr", metavar="SETTING=VALUE", help="One more row, of CAMVR with it; repeatable."),
    ] = None,
) -> None:
    """Trains, validates and evaluates MVR and CAMVR at one question per passage."""
    begun, until = time.monotonic(), math.inf
    out.mkdir(parents=True, exist_ok=True)

    def rows(store: Store, steps: int, validate_steps: int) -> dict[str, Row]:
        limits = (f"train.max_steps={steps}", f"train.validate_steps={validate_steps}")
        return study_rows(seed, [*SETTINGS, *FINER, *limits, *(settings or [])], others or [], store)

    number = len(ROWS) + len(others or [])
    with (
        tempfile.TemporaryDirectory(prefix="camvr-or-mvr-", ignore_cleanup_errors=True) as folder,
        ProcessPoolExecutor(number, multiprocessing.get_context("spawn")) as pool,
    ):
        store = LocalStore(kept or Path(folder))
        loading = [pool.submit(ready) for _ in range(number)]
        short = rows(store, PACE_STEPS, PACE_STEPS)
        for row in short.values():
            run(row.until("initial-model"), store.root)
        wait(loading)
        print(f"data and models: {time.monotonic() - begun:.0f} s", flush=True)
        if steps is None:
            list(pool.map(run, [row.until("train") for row in short.values()], [store.root] * number))
            paces = {name: pace(curve(store, row)) for name, row in short.items()}
            for name, each in paces.items():
                print(f"{name}: {1000 * each.step:.0f} ms a step, {each.validation:.1f} s a validation")
            left = 60 * minutes * (1 - ENDING) - (time.monotonic() - begun)
            until = time.time() + left if kept is None else math.inf
            affordable = steps_within(left, paces.values())
            steps = min(affordable, *(all_steps(store, row) for row in short.values()))
        print(f"{time.monotonic() - begun:.0f} s so far; {steps:,} steps of each", flush=True)
        whole = rows(store, steps, max(1, steps // VALIDATIONS))
        curves = Curves(store, whole, out)
        curves.follow([pool.submit(run, row, store.root, until) for row in whole.values()])
        found = {name: figures(store, row) for name, row in whole.items()}
        (out / "figures.json").write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
        print(f"\n{curves.table()}")
        for metric in found[ROWS[0]]:
            if "/" not in metric or metric.startswith(PRINTED):
                values = (of.get(metric, float("nan")) for of in found.values())
                print(f"{metric:<28}", *(f"{value:>8.4f}" for value in values))
        table = compared(store, whole)
        (out / "comparison.md").write_text(table)
        print(f"\n{table}\n{time.monotonic() - begun:.0f} s in all")


if __name__ == "__main__":
    typer.run(main)
