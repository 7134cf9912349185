"""Does CAMVR beat MVR where each passage has one question? Both are trained side by side within a budget of minutes.

    python -m benchmarks.camvr_or_mvr --minutes 6 --out measured

The runs are those of the study `one-question` with these rows and SETTINGS, step by step, in a store that is thrown away
afterwards and without MLflow. A short training of both at once tells the time of a step, and with it the number of
steps that the minutes allow, as the learning rate and the temperature must know it before. Held-out questions are more
than the preset's, as 100 would not tell two systems apart. `--out` gets `curve.jsonl`, a line per validation as soon as
it is done; `curve.md`; and, at the end, each system's metrics and analyses (`figures.json`) and their comparison
(`comparison.md`). Models are not kept.
"""

from __future__ import annotations

import json
import multiprocessing
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

import torch
import typer

from multiview import metric_names
from multiview.artifacts.record import Reference, load_record
from multiview.artifacts.staging import stage
from multiview.artifacts.store import LocalStore, Store
from multiview.config.overrides import Overrides, gather
from multiview.evaluation.files import METRICS_FILE, TABLE_FILE
from multiview.plans.comparison import comparison_of_evaluations
from multiview.plans.request import Request, describe
from multiview.steps.events import read_metrics
from multiview.steps.runs import StepState, read_state
from pipelines.runs.local import execute
from pipelines.runs.study import comparison_settings, read_study

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
"""Over SETTINGS: a curve of less noise, and no checkpoints."""
PACE_STEPS = 60
VALIDATIONS = 24
"""How often each system is validated after its first step."""
ENDING = 0.25
"""The share of the minutes that encoding all passages and evaluating take."""
MRR = metric_names.of_validation(metric_names.MRR)
PRINTED = (f"{metric_names.accuracy_at(5)}/", f"{metric_names.SHARE_OF_GOLD}/")
"""The figures of single views that are printed, of those in `figures.json`."""
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


def study_requests(seed: int, settings: Sequence[str]) -> dict[str, Request]:
    """The study's request of each row, as `python -m pipelines study` makes it."""
    document = read_study(STUDY).chosen(ROWS, [seed])
    overrides = document.overrides(gather(PRESET, settings)).items()
    return {row.partition("/")[0]: Request.make(document.pipeline, each, PRESET) for row, each in overrides}


def until(request: Request, step: str) -> Request:
    """The request of the steps before the first one called `step`, and of this one."""
    names = [node.step.name for node in request.plan.nodes.values()]
    nodes = dict(list(request.plan.nodes.items())[: names.index(step) + 1])
    return replace(request, plan=replace(request.plan, nodes=nodes))


def run(request: Request, folder: Path) -> None:
    """Runs a request's steps, or finds them, in the store that `folder` is."""
    store = LocalStore(folder)
    execute(request.plan, describe(request, store), store)


def ready() -> None:
    """Loads what a training needs, while the data are read elsewhere."""
    import multiview.training.train  # noqa: F401

    torch.ones(1, device="cuda" if torch.cuda.is_available() else "cpu")


def state_of(store: Store, request: Request, step: str) -> StepState | None:
    """The state of a request's step of this name, once it has begun."""
    path = next(path for path, node in request.plan.nodes.items() if node.step.name == step)
    return read_state(store, describe(request, store).id, str(path))


def output(store: Store, request: Request, step: str) -> Reference:
    """The first output of a step that is done."""
    state = state_of(store, request, step)
    assert state is not None
    return next(iter(state.outputs.values()))


def folder_of(store: Store, request: Request, step: str) -> Path:
    """The files of the first output of a step that is done."""
    return stage(*load_record(output(store, request, step).address)).path


def curve(store: Store, request: Request) -> dict[int, dict[str, float]]:
    """All metrics of a request's training so far by step, with the Unix time of the last as `time`."""
    state = state_of(store, request, "train")
    found: dict[int, dict[str, float]] = {}
    for event in read_metrics(store, state.attempt) if state and state.attempt else ():
        if event.step is not None:
            found.setdefault(event.step, {})[event.name] = event.value
            found[event.step]["time"] = event.time / 1000
    return found


def pace(measured: Mapping[int, Mapping[str, float]]) -> Pace:
    """The pace of a training of PACE_STEPS steps: validated at the last, before its loss is logged."""
    last = max(measured)
    logged = [step for step in measured if 0 < step < last]
    first, before = logged[0], logged[-1]
    step = (measured[before]["time"] - measured[first]["time"]) / (before - first)
    return Pace(step, max(0.0, measured[last]["time"] - measured[before]["time"] - (last - before) * step))


def all_steps(store: Store, request: Request) -> int:
    """How many steps a training has that ends by its epochs."""
    _, record = load_record(output(store, until(request, "train"), "train").address)
    return round(request.config.train.epochs * record.facts["steps_per_epoch"])


def steps_within(seconds: float, paces: Iterable[Pace]) -> int:
    """How many steps, with their validations, the slower system takes in this time."""
    return max(VALIDATIONS, int(min((seconds - VALIDATIONS * each.validation) / each.step for each in paces)))


class Curves:
    """The validations of both systems, written and printed as soon as they are there."""

    def __init__(self, store: Store, requests: Mapping[str, Request], out: Path) -> None:
        self._store, self._requests, self._out = store, requests, out
        self._begun = time.time()
        self._mrr: dict[str, dict[int, float]] = {row: {} for row in requests}

    def follow(self, trainings: Sequence[Future[None]]) -> None:
        """Shows what is new until all trainings have ended. Raises the first exception of one."""
        while wait(trainings, SHOWN_SECONDS).not_done:
            self.show()
        self.show()
        for training in trainings:
            training.result()

    def show(self) -> None:
        """Appends the validations that are new, and writes the table anew."""
        for row, request in self._requests.items():
            measured = curve(self._store, request)
            loss = float("nan")
            for step, metrics in sorted(measured.items()):
                loss = metrics.get("loss", loss)
                if MRR not in metrics or step in self._mrr[row]:
                    continue
                self._mrr[row][step] = metrics[MRR]
                seconds = round(metrics["time"] - self._begun, 1)
                line = json.dumps({"system": row, "step": step, "seconds": seconds, "loss": loss, **metrics})
                with (self._out / "curve.jsonl").open("a") as file:
                    file.write(f"{line}\n")
                print(f"{row:<12} step {step:>6,}  {seconds:>6.1f} s  MRR@10 {metrics[MRR]:.3f}", flush=True)
        (self._out / "curve.md").write_text(self.table())

    def table(self) -> str:
        """MRR@10 by step, and where CAMVR takes the lead for good."""
        mvr, camvr = (self._mrr[row] for row in ROWS)
        both = sorted(mvr.keys() & camvr.keys())
        lines = ["| step | MVR | CAMVR |", "| ---: | ---: | ---: |"]
        lines += [f"| {step:,} | {mvr[step]:.3f} | {camvr[step]:.3f} |" for step in both]
        behind = [step for step in both if camvr[step] <= mvr[step]]
        after = [step for step in both if not behind or step > behind[-1]]
        lead = f"from step {after[0]:,} on" if after else "at no end of the curve"
        return "\n".join([*lines, "", f"CAMVR's MRR@10 is the higher one {lead}.", ""])


def figures(store: Store, request: Request) -> dict[str, float]:
    """The metrics of a row's evaluation and of its analyses."""
    folder = folder_of(store, request, "evaluate")
    files = [folder / METRICS_FILE, folder / "analyses" / METRICS_FILE]
    return {name: value for file in files for name, value in json.loads(file.read_text()).items()}


def compared(store: LocalStore, requests: Mapping[str, Request], shared: Overrides) -> str:
    """The study's table of both rows, with its tests of significance."""
    evaluations = {row: output(store, request, "evaluate") for row, request in requests.items()}
    document = read_study(STUDY).chosen(ROWS, ())
    settings = comparison_settings(document, list(evaluations), document.shared(shared))
    request = until(Request(comparison_of_evaluations("study", evaluations, settings), {}), "compare")
    run(request, store.root)
    return (folder_of(store, request, "compare") / TABLE_FILE).read_text()


def main(
    minutes: Annotated[float, typer.Option(help="All that it may take.")] = 6,
    out: Annotated[Path, typer.Option(help="The folder of what is found.")] = Path("measured"),
    seed: Annotated[int, typer.Option(help="The seed of both systems.")] = 0,
    steps: Annotated[int | None, typer.Option(help="Steps of each; default: as the minutes allow.")] = None,
    settings: Settings = None,
) -> None:
    """Trains, validates and evaluates MVR and CAMVR at one question per passage."""
    begun = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    given = [*SETTINGS, *FINER, *(settings or [])]
    whole = study_requests(seed, given)
    with (
        tempfile.TemporaryDirectory(prefix="camvr-or-mvr-", ignore_cleanup_errors=True) as folder,
        ProcessPoolExecutor(len(ROWS), multiprocessing.get_context("spawn")) as pool,
    ):
        store = LocalStore(Path(folder))
        loading = [pool.submit(ready) for _ in ROWS]
        for request in whole.values():
            run(until(request, "initial-model"), store.root)
        wait(loading)
        print(f"data and models: {time.monotonic() - begun:.0f} s", flush=True)
        short = study_requests(
            seed, [*given, f"train.max_steps={PACE_STEPS}", f"train.validate_steps={PACE_STEPS}"]
        )
        list(pool.map(run, [until(request, "train") for request in short.values()], [store.root] * 2))
        paces = {row: pace(curve(store, until(request, "train"))) for row, request in short.items()}
        left = 60 * minutes * (1 - ENDING) - (time.monotonic() - begun)
        limit = min(
            steps or steps_within(left, paces.values()), *(all_steps(store, each) for each in short.values())
        )
        for row, each in paces.items():
            print(f"{row}: {1000 * each.step:.0f} ms a step, {each.validation:.1f} s a validation")
        print(f"{time.monotonic() - begun:.0f} s so far; {limit:,} steps of each", flush=True)
        requests = study_requests(
            seed, [*given, f"train.max_steps={limit}", f"train.validate_steps={max(1, limit // VALIDATIONS)}"]
        )
        curves = Curves(store, requests, out)
        curves.follow([pool.submit(run, request, store.root) for request in requests.values()])
        found = {row: figures(store, request) for row, request in requests.items()}
        (out / "figures.json").write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
        print(f"\n{curves.table()}")
        for name, value in found[ROWS[0]].items():
            if "/" in name and not name.startswith(PRINTED):
                continue
            print(f"{name:<40} {value:>10.4f} {found[ROWS[1]].get(name, float('nan')):>10.4f}")
        table = compared(store, requests, gather(PRESET, given))
        (out / "comparison.md").write_text(table)
        print(f"\n{table}\n{time.monotonic() - begun:.0f} s in all")


if __name__ == "__main__":
    typer.run(main)
