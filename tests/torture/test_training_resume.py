"""A training that ends after any of its steps goes on in mid-epoch as if it never had: batches, losses and all states."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from multiview.artifacts.staging import LocalArtifact
from multiview.config import Config, Corpus, Questions, Train
from multiview.negatives.cross_encoder import write_teacher
from multiview.steps.context import StepContext
from multiview.training import trainer
from multiview.training.batches import Collator
from multiview.training.train import train
from tests.fixtures import training_material
from tests.fixtures.base_model import one_thread
from tests.fixtures.checkpoints import KeptCheckpoints
from tests.fixtures.events import RecordedEvents
from tests.fixtures.tally import Tally

__all__ = ["one_thread"]

STEPS, EVERY = 11, 2
SETTINGS: dict[str, Any] = {
    "batch_size": 4,
    "max_steps": STEPS,
    "learning_rate": 3e-3,
    "warmup_steps": 3,
    "checkpoint_steps": EVERY,
    "positive": "answer",
    "dropout": 0.2,
    "temperature": {"schedule": "annealed"},
    "validate_steps": 3,
    "validation_questions": 6,
    "validation_passages": 16,
}
"""Epochs of 5 or 6 steps: most checkpoints are in the middle of one."""
KINDS: dict[str, dict[str, Any]] = {
    "labels": {},
    "teacher": {"distill_weight": 0.7, "negatives": 2, "chunk": 3},
}
"""What a training learns from."""


class Killed(BaseException):
    pass


class Ending(RecordedEvents):
    """Events of a training that ends when a step is done."""

    def __init__(self, after: int | None) -> None:
        super().__init__()
        self.after = after

    def progress(self, done: int, total: int, unit: str) -> None:
        super().progress(done, total, unit)
        if done == self.after:
            raise Killed


class Trained:
    """A training, whole or ended after a step: its batches, its figures, its checkpoints and its model."""

    def __init__(
        self, kind: str, data: dict[str, LocalArtifact], folder: Path, kept: Path, after: int | None = None
    ) -> None:
        self.events, self.checkpoints, self.batches = Ending(after), KeptCheckpoints(kept), []
        kept.mkdir(exist_ok=True)
        self.kind = kind
        settings = {"train": Train(**SETTINGS, **KINDS[kind]), "questions": Questions(), "corpus": Corpus()}
        context = StepContext(
            Config.partial(settings), data, {"model": folder}, self.events, self.checkpoints
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Collator, "__call__", self._watched(Collator.__call__))
            patch.setattr(trainer, "LOG_STEPS", 1)
            train(context)

    def _watched(self, collate: Any) -> Any:
        def watched(collator: Collator, examples: Any) -> Any:
            self.batches.append([(e.question.qid, e.positive, e.negatives) for e in examples])
            return collate(collator, examples)

        return watched

    def figures(self, after: int) -> list[tuple[str, float, int | None]]:
        """Every figure of the steps after one: losses, temperature, learning rate, gradient norm, validation."""
        return [figure for figure in self.events.metrics if figure[2] is not None and figure[2] > after]


def states(checkpoint: Path) -> dict[str, Any]:
    """The content of a checkpoint: weights, optimizer, schedule, random states, progress, and the best model so far."""
    found: dict[str, Any] = {}
    for path in sorted(path for path in checkpoint.rglob("*") if path.is_file()):
        name = str(path.relative_to(checkpoint))
        if path.suffix in (".pt", ".pth"):
            found[name] = torch.load(path, weights_only=False)
        elif name == "trainer_state.json":
            found[name] = json.loads(path.read_text())["log_history"]
        elif name != "training_args.bin":  # names the run's temporary folder
            found[name] = path.read_bytes()
    return found


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(itertools.starmap(equal, zip(one, other, strict=True)))
    same = one == other
    return bool(same) if isinstance(same, bool) else bool(same.all())


@pytest.fixture(scope="module")
def data(base: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, LocalArtifact]:
    folder = tmp_path_factory.mktemp("data")
    passages = [training_material.passage(i, sentences=2 + i % 6) for i in range(24)]
    questions = [training_material.question(i, passages[i % 12]) for i in range(30)]
    pool = {q.qid: [passages[(i * 5 + j) % 24].id for j in range(1, 5)] for i, q in enumerate(questions)}
    written = training_material.write_training_data(folder, questions, pool)
    lists = [[*question.positive_ids, *pool[question.qid]] for question in questions]
    logits = np.random.default_rng(0).normal(0, 3, (len(lists), 5))
    write_teacher(written["negatives"].path, [question.qid for question in questions], lists, logits)
    return {
        "start": training_material.saved_model(folder / "start", base),
        "passages": training_material.write_shard(folder / "passages", passages),
        **written,
    }


@pytest.fixture(scope="module", params=KINDS)
def whole(
    request: pytest.FixtureRequest, data: dict[str, LocalArtifact], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Trained, Path]:
    folder = tmp_path_factory.mktemp("whole")
    return Trained(request.param, data, folder / "model", folder / "kept"), folder


AFTER = [pytest.param(step, marks=pytest.mark.torture) if step != 7 else step for step in range(1, STEPS + 1)]


@pytest.mark.parametrize("after", AFTER)
def test_every_step_after_the_end_of_a_training_is_as_without_it(
    whole: tuple[Trained, Path], data: dict[str, LocalArtifact], tmp_path: Path, after: int, tally: Tally
) -> None:
    expected, folder = whole
    assert len(expected.events.steps) == STEPS and expected.events.metrics
    with pytest.raises(Killed):
        Trained(expected.kind, data, tmp_path / "killed", tmp_path / "kept", after)
    resumed = Trained(expected.kind, data, tmp_path / "resumed", tmp_path / "kept")

    # The checkpoint of a step is written after its progress is reported.
    last = (after - 1) // EVERY * EVERY
    assert resumed.batches == expected.batches[last:]
    assert resumed.figures(last) == expected.figures(last)
    assert {name for name, *_ in resumed.figures(last)} >= {
        "loss",
        "temperature",
        "learning_rate",
        "grad_norm",
        *(["distill_loss"] if expected.kind == "teacher" else []),
    }
    for step in range(EVERY, STEPS, EVERY):
        held, found = states(folder / "kept" / str(step)), states(tmp_path / "kept" / str(step))
        assert (
            {"optimizer.pt", "scheduler.pt", "rng_state.pth", "validation.json"}
            <= found.keys()
            == held.keys()
        )
        assert not [name for name in held if not equal(held[name], found[name])], (
            f"the states after step {step}"
        )
    for path in (path for path in (folder / "model").rglob("*") if path.is_file()):
        assert (tmp_path / "resumed" / path.relative_to(folder / "model")).read_bytes() == path.read_bytes()
    assert resumed.events.facts["best_step"] == expected.events.facts["best_step"]
    tally.survived(of="training, ended after a step")
