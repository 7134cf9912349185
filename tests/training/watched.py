"""Trainings that remember what they saw; in a module that a started process can import."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch

from multiview.config import Questions
from multiview.errors import ProcessFailed
from multiview.training import train as training
from multiview.training.gathering import check_same_start
from multiview.training.trainer import BiEncoderTrainer
from multiview.training.warm_up import _warm_up
from tests.fixtures.checkpoints import Kept


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


def watch(
    settings: Any, inputs: dict[str, Any], output: dict[str, Path], tell: Any, checkpoints: Any
) -> None:
    """Train every case of `settings.cases` on its own data; what was seen goes to `output["seen"]`."""
    rank = int(os.environ.get("RANK", "0"))
    for name, case in settings.cases.items():
        Watched.seen = []
        with patch.object(training, "BiEncoderTrainer", Watched):
            _train(case, inputs[name], output["models"] / name, tell)
        torch.save(Watched.seen, output["seen"] / f"{name}-{rank}.pt")


def watch_and_resume(
    settings: Any, inputs: dict[str, Any], output: dict[str, Path], tell: Any, checkpoints: Any
) -> None:
    """`watch`, then train with dropout once through and once from a checkpoint in the middle."""
    watch(settings, inputs, output, tell, checkpoints)
    kept = output["models"] / "kept"
    _train(settings.dropout, inputs["dropout"], output["models"] / "whole", tell, Kept(kept))
    torch.distributed.barrier()
    _train(settings.dropout, inputs["dropout"], output["models"] / "resumed", tell, Kept(kept))
    try:
        check_same_start(Path(f"checkpoint-{os.environ['RANK']}"))
    except ProcessFailed as error:
        (output["seen"] / f"refused-{os.environ['RANK']}").write_text(str(error))
    # What each process draws: an equal draw would drop the same units everywhere.
    torch.save(torch.random.get_rng_state(), output["seen"] / f"state-{os.environ['RANK']}.pt")


def _train(case: Any, inputs: dict[str, Any], model: Path, tell: Any, kept: Any = None) -> None:
    settings = SimpleNamespace(train=case, questions=Questions())
    body = _warm_up if "queries" in inputs else training._train
    body(settings, inputs, {"model": model}, tell, kept)
