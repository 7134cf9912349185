"""Trainings that record what they saw, in a module that a started process can import."""

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from multiview.artifacts.staging import LocalArtifact
from multiview.config import Config, Corpus, Questions, Train
from multiview.errors import ProcessFailed
from multiview.steps.context import StepContext
from multiview.training import train as training
from multiview.training import trainer
from multiview.training.all_gather import check_same_start
from multiview.training.data import TrainingData, training_data, warm_up_data
from multiview.training.trainer import BiEncoderTrainer
from tests.fixtures.checkpoints import KeptCheckpoints


class Watched(BiEncoderTrainer):
    """Remembers each step's loss, gradients, and their norm and values after clipping."""

    seen: list[dict[str, Any]] = []

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        loss = super().training_step(*args, **kwargs)
        self.seen.append({"loss": loss.clone()})
        return loss

    def _clip_grad_norm(self, model: Any) -> Any:
        self.seen[-1]["gradients"] = self._gradients()
        norm = super()._clip_grad_norm(model)
        self.seen[-1].update(norm=torch.as_tensor(norm).clone(), clipped=self._gradients())
        return norm

    def _gradients(self) -> dict[str, torch.Tensor]:
        assert self.model is not None
        return {
            name: value.grad.clone()
            for name, value in self.model.named_parameters()
            if value.grad is not None
        }


Inputs = dict[str, dict[str, LocalArtifact]]


def watch(trainings: dict[str, Train], inputs: Inputs, context: StepContext) -> None:
    """Train every case on its own data, but for the one with dropout; what was seen goes to the output `seen`."""
    rank = int(os.environ.get("RANK", "0"))
    for name in [name for name in trainings if name != "dropout"]:
        Watched.seen = []
        with patch.object(training, "BiEncoderTrainer", Watched):
            _train(trainings[name], inputs[name], context, name)
        torch.save(Watched.seen, context.output("seen") / f"{name}-{rank}.pt")


def watch_and_resume(trainings: dict[str, Train], inputs: Inputs, context: StepContext) -> None:
    """`watch`, then train with dropout once through and once from a checkpoint in the middle."""
    watch(trainings, inputs, context)
    kept = replace(context, checkpoints=KeptCheckpoints(context.output("models") / "kept"))
    _train(trainings["dropout"], inputs["dropout"], kept, "whole")
    torch.distributed.barrier()
    _train(trainings["dropout"], inputs["dropout"], kept, "resumed")
    try:
        check_same_start(Path(f"checkpoint-{os.environ['RANK']}"))
    except ProcessFailed as error:
        (context.output("seen") / f"refused-{os.environ['RANK']}").write_text(str(error))
    # What each process draws: an equal draw would drop the same units everywhere.
    torch.save(torch.random.get_rng_state(), context.output("seen") / f"state-{os.environ['RANK']}.pt")


def _train(case: Train, inputs: dict[str, LocalArtifact], context: StepContext, name: str) -> None:
    settings = Config.partial({"train": case, "questions": Questions(), "corpus": Corpus()})
    outputs = {"model": context.output("models") / name}
    given = replace(context, settings=settings, inputs=inputs, outputs=outputs)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        warms_up = "queries" in inputs
        data = warm_up_data(given, folder) if warms_up else training_data(given, folder)
        fit_steadily(data, given)


def fit_steadily(data: TrainingData, context: StepContext) -> None:
    """`fit`, which logs every step, with a large epsilon of Adam, which divides by a gradient's size: else one that is
    zero but for rounding would decide a step's sign."""
    with patch.object(trainer, "ADAM_EPSILON", 1e-3), patch.object(trainer, "LOG_STEPS", 1):
        training.fit(data, context)
