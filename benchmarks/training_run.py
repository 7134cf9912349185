"""The steps of a training from start to end, and which share of their processor time the model takes (docs/performance.md).

    MULTIVIEW_DATA=data python -m benchmarks.training_run --steps 40 --passages 4000

Bound: forward passes, backward passes and AdamW. All else is what the program does around the model: imports, reading
and writing, sentences, negatives, tokenising, the order of batches, the index, searches, metrics, and the store. The
steps run one after another in one process of one thread, without KFP and MLflow, whose cost `commands.py` measures.
CAMVR with MiniLM, in float32 and with 256 tokens per passage, on the first passages of SQuAD and questions about them;
two rounds, each of as many training steps.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import pyarrow.parquet as pq
import typer

from benchmarks.random_inputs import BASE
from benchmarks.table import Contestant, Goal, Row, Size, markdown, squad_folder
from multiview import environment
from multiview.artifacts.store import LocalStore
from multiview.plans.found import Outputs, inputs_of
from multiview.plans.plan import Plan
from multiview.plans.request import Request
from multiview.steps.execution import run_step
from multiview.steps.reporter import StepReporter

QUESTIONS = 16
"""Questions per training step."""


class InModel:
    """The processor time that the model takes."""

    def __init__(self) -> None:
        self.seconds, self._depth = 0.0, 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Counts the time of the block, of blocks within each other that of the outer one."""
        self._depth += 1
        begun = time.process_time()
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self.seconds += time.process_time() - begun

    def watch(self, owner: type, *names: str) -> None:
        """Counts each call of these methods."""
        for name in names:
            setattr(owner, name, self._counting(getattr(owner, name)))

    def _counting(self, method: Any) -> Any:
        def counting(*arguments: Any, **named: Any) -> Any:
            with self.counted():
                return method(*arguments, **named)

        return counting


def request(folder: Path, data: Path, steps: int, passages: int) -> Request:
    """A training on the first passages of SQuAD and questions about them: `QUESTIONS` per step, and 200 dev questions."""
    corpus = pq.read_table(data / "passages.parquet").slice(0, passages)
    pq.write_table(corpus, folder / "passages.parquet")
    settings = [
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
    return Request.from_settings("training", None, settings)


def run(plan: Plan, store: LocalStore) -> None:
    """Runs the steps of a plan in this process."""
    outputs: Outputs = {}
    for node in plan.nodes.values():
        for path in node.paths():
            reporter = StepReporter(store, "benchmark", str(path), node.step.name)
            run_step(node.step, reporter, node.config, inputs_of(plan, node, path, outputs))
            outputs[path] = reporter.state.outputs


def measure(data: Path, steps: int, passages: int) -> Row:
    """The row: all processor time of this process, from its start, and that of the model."""
    import torch

    from multiview.model.encoder import BiEncoder

    torch.set_num_threads(1)
    model = InModel()
    encodes = ("encode_questions", "encode_passages", "encode_packed_questions", "encode_packed_passages")
    model.watch(BiEncoder, "forward", "passage_attention", *encodes)
    model.watch(torch.Tensor, "backward")
    model.watch(torch.optim.AdamW, "step")
    with tempfile.TemporaryDirectory(prefix="multiview-training-run-") as temporary:
        folder = Path(temporary)
        plan = request(folder, data, steps, passages).plan
        run(plan, LocalStore(folder / "store"))
    work = f"the {len(plan.nodes)} steps of a training of 2 × {steps} steps of {QUESTIONS} questions, {passages:,} passages"
    bound = Contestant((model.seconds,), "in the model")
    return Row(work, "s", Contestant((time.process_time(),)), bound=bound, goal=Goal(of_bound=0.9))


def rows(size: Size) -> Iterator[Row]:
    """The row of `make bench`, of a short training, about two minutes; a longer one has a higher share. None if quick."""
    if size == "whole":
        os.environ[environment.OMP_NUM_THREADS] = "1"
        yield measure(squad_folder(), 5, 500)


def main(
    steps: Annotated[int, typer.Option(min=1, help="Training steps per round.")] = 20,
    passages: Annotated[int, typer.Option(min=100, help="Passages.")] = 4000,
    data: Annotated[Path, typer.Option(envvar=environment.DATA, help="Folder that holds squad/.")] = Path(
        "data"
    ),
) -> None:
    """Prints seconds of processor time."""
    os.environ[environment.OMP_NUM_THREADS] = "1"
    print(*markdown([measure(data / "squad", steps, passages)]), sep="\n")


if __name__ == "__main__":
    typer.run(main)
