"""The steps of a training from start to end, and the model's share of their processor time (docs/performance.md).

    MULTIVIEW_DATA=data python -m benchmarks.training_run --steps 40 --passages 4000
    MULTIVIEW_DATA=data python -m benchmarks.training_run --steps 40 --passages 4000 --command

Bound: forward passes, backward passes and AdamW. All else is what the program does around the model: imports, reading
and writing, sentences, negatives, tokenising, the order of batches, the index, searches, metrics, and the store. The
steps run one after another in one process of one thread, without KFP and MLflow; with `--command`, the row is the
wall time of `python -m pipelines run`, with MLflow, on all cores, beside the model's in one process. CAMVR with MiniLM,
in float32 and with 256 tokens per passage, on the first passages of SQuAD and questions about them; two rounds of
`--steps` training steps each.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import pyarrow.parquet as pq
import typer

from benchmarks.commands import PIPELINES, taken
from benchmarks.random_inputs import BASE
from benchmarks.table import Contestant, Goal, Row, Size, markdown, squad_folder
from multiview import environment
from multiview.artifacts.store import LocalStore
from multiview.plans.plan import Outputs, Plan
from multiview.plans.request import Request
from multiview.steps.execution import run_step
from multiview.steps.work import StepReporter

QUESTIONS = 16
"""Questions per training step."""


class InModel:
    """The time that the model takes, by a clock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock, self.seconds, self._depth = clock, 0.0, 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Counts the time of the block; of nested blocks, only the outermost."""
        self._depth += 1
        begun = self.clock()
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self.seconds += self.clock() - begun

    def watch(self, owner: type, *names: str) -> None:
        """Counts each call of these methods."""
        for name in names:
            setattr(owner, name, self._counting(getattr(owner, name)))

    def _counting(self, method: Any) -> Any:
        def counting(*arguments: Any, **named: Any) -> Any:
            with self.counted():
                return method(*arguments, **named)

        return counting


def settings(folder: Path, data: Path, steps: int, passages: int) -> list[str]:
    """Settings of a training on SQuAD's first passages and their questions: `QUESTIONS` a step, 200 dev questions."""
    corpus = pq.read_table(data / "passages.parquet").slice(0, passages)
    pq.write_table(corpus, folder / "passages.parquet")
    return [
        f"corpus.source={folder / 'passages.parquet'}",
        f"questions.source={data / 'train.parquet'}",
        "questions.columns={positive_ids: positive_passage_id}",
        "questions.max_missing_gold=1",
        "questions.dev_share=0.2",
        "questions.dev_limit=200",
        f"model.base={BASE}",
        f"train.batch_size={QUESTIONS}",
        f"train.max_steps={steps}",
        f"train.checkpoint_steps={steps + 1}",
        "train.warmup_steps=null",
        "train.rounds=2",
    ]


def run(plan: Plan, store: LocalStore) -> None:
    """Runs the steps of a plan in this process."""
    outputs: Outputs = {}
    for node in plan.nodes.values():
        for path in node.paths():
            reporter = StepReporter(store, "benchmark", str(path), node.step.name)
            run_step(node.step, reporter, node.config, plan.inputs_of(node, path, outputs))
            outputs[path] = reporter.state.outputs


def in_model(plan: Plan, store: LocalStore, clock: Callable[[], float]) -> float:
    """Runs the steps of a plan in this process; returns the time in the model."""
    import torch

    from multiview.model.encoder import BiEncoder

    model = InModel(clock)
    model.watch(BiEncoder, "forward", "passage_attention", "encode_questions", "encode_passages")
    model.watch(torch.Tensor, "backward")
    model.watch(torch.optim.AdamW, "step")
    run(plan, store)
    return model.seconds


def measure(data: Path, steps: int, passages: int) -> Row:
    """The row of this process's whole processor time, from its start, beside the model's."""
    use_one_thread()
    with tempfile.TemporaryDirectory(prefix="multiview-training-run-") as temporary:
        folder = Path(temporary)
        plan = Request.from_settings("training", None, settings(folder, data, steps, passages)).plan
        spent = in_model(plan, LocalStore(folder / "store"), time.process_time)
    work = f"the {len(plan.nodes)} steps of {described(steps, passages)}"
    bound = Contestant((spent,), "in the model")
    return Row(work, "s", Contestant((time.process_time(),)), bound=bound, goal=Goal(of_bound=0.9))


def measure_command(data: Path, steps: int, passages: int) -> Row:
    """The row of the command's wall time, beside the model's in this process."""
    with tempfile.TemporaryDirectory(prefix="multiview-training-run-") as temporary:
        folder = Path(temporary)
        chosen = settings(folder, data, steps, passages)
        options = [word for setting in chosen for word in ("--set", setting)]
        wall, _ = taken((*PIPELINES, "run", "training", "--store", str(folder / "commanded"), *options))
        plan = Request.from_settings("training", None, chosen).plan
        spent = in_model(plan, LocalStore(folder / "store"), time.perf_counter)
    work = f"the command of {described(steps, passages)}, wall time"
    bound = Contestant((spent,), "in the model")
    return Row(work, "s", Contestant((wall,)), bound=bound, goal=Goal(of_bound=0.9))


def described(steps: int, passages: int) -> str:
    return f"a training of 2 × {steps} steps of {QUESTIONS} questions, {passages:,} passages"


def use_one_thread() -> None:
    """Makes torch, and libraries that are not loaded yet, use one thread."""
    os.environ[environment.OMP_NUM_THREADS] = "1"
    import torch

    torch.set_num_threads(1)


def rows(size: Size) -> Iterator[Row]:
    """The row of `make bench`, of a training of about two minutes; a longer one has a higher share. None if quick."""
    if size == "whole":
        yield measure(squad_folder(), 5, 500)


def main(
    steps: Annotated[int, typer.Option(min=1, help="Training steps per round.")] = 20,
    passages: Annotated[int, typer.Option(min=100, help="Passages.")] = 4000,
    command: Annotated[bool, typer.Option("--command", help="Wall time of the command.")] = False,
    data: Annotated[Path, typer.Option(envvar=environment.DATA, help="Folder that holds squad/.")] = Path(
        "data"
    ),
) -> None:
    """Prints seconds, of processor time unless it is a command's."""
    work = measure_command if command else measure
    print(*markdown([work(data / "squad", steps, passages)]), sep="\n")


if __name__ == "__main__":
    typer.run(main)
