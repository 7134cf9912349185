"""The batch of a step in groups of similar length: the loss and gradients are those of one group."""

import math
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from multiview.config import Train
from multiview.model.encoder import BiEncoder
from multiview.model.layouts import LAYOUTS
from multiview.training.batches import Collator, TrainingBatch
from multiview.training.stream import Example
from multiview.training.trainer import BiEncoderTrainer
from tests.fixtures import training_material

PASSAGES = [training_material.passage(i, sentences=1 + i % 7) for i in range(16)]
EXAMPLES = [
    Example(training_material.question(i, PASSAGES[i]), PASSAGES[i].id, (PASSAGES[8 + i].id,) * (i % 3))
    for i in range(8)
]
RELATIVE = 1e-5


def collated(model: BiEncoder, settings: Train, group_cost: float) -> TrainingBatch:
    by_id = {passage.id: passage for passage in PASSAGES}
    return Collator(model.layout, 0, by_id, settings, group_cost=group_cost)(EXAMPLES)


def loss_and_gradients(
    model: BiEncoder, settings: Train, batch: TrainingBatch
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    stub: Any = SimpleNamespace(
        state=SimpleNamespace(global_step=0),
        stream=SimpleNamespace(steps_per_epoch=1, steps=1),
        settings=settings,
        _parts=defaultdict(list),
    )
    model.zero_grad()
    loss = BiEncoderTrainer.compute_loss(stub, model, cast(Any, batch))
    assert isinstance(loss, torch.Tensor)
    loss.backward()
    gradients = {name: value.grad for name, value in model.named_parameters()}
    return loss.detach(), {name: value.clone() for name, value in gradients.items() if value is not None}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("architecture", LAYOUTS)
def test_groups_have_the_loss_and_the_gradients_of_the_whole_batch(
    base: Path, tmp_path: Path, architecture: str, dtype: torch.dtype
) -> None:
    tied = architecture == "dual-cross"
    folder = training_material.saved_model(tmp_path / "m", base, architecture=architecture, tied=tied).path
    model = BiEncoder.load(folder, dtype)
    settings = Train(**{**LAYOUTS[architecture].defaults.get("train", {}), "local_weight": 0.1})  # type: ignore[dict-item]
    whole, grouped = collated(model, settings, math.inf), collated(model, settings, 64)
    assert len(whole["passages"]["batches"]) == 1 < len(grouped["passages"]["batches"])
    assert padded(grouped) < padded(whole)
    loss, gradients = loss_and_gradients(model, settings, whole)
    again, others = loss_and_gradients(model, settings, grouped)
    torch.testing.assert_close(again, loss, rtol=RELATIVE, atol=0)
    assert gradients.keys() == others.keys() and gradients
    largest = max(gradient.abs().max().item() for gradient in gradients.values())
    for name, gradient in gradients.items():
        torch.testing.assert_close(others[name], gradient, rtol=RELATIVE, atol=RELATIVE * largest, msg=name)


def padded(batch: TrainingBatch) -> int:
    return sum(group["input_ids"].numel() for group in batch["passages"]["batches"])
