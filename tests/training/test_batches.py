"""The batch of a step: in groups of similar length its loss and gradients are those of one padded batch, and
which of its passages are no negatives of a question."""

import math
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from multiview.config import Train
from multiview.data.questions import Question
from multiview.model.dropout import set_dropout
from multiview.model.encoder import BiEncoder
from multiview.model.layouts import LAYOUTS
from multiview.training.batches import Collator, TrainingBatch, excluded_passages, passage_ids
from multiview.training.example_order import Example
from multiview.training.trainer import BiEncoderTrainer
from tests.fixtures import training_material
from tests.fixtures.encoded import MODELS

PASSAGES = [training_material.passage(i, sentences=1 + i % 7) for i in range(16)]
EXAMPLES = [
    Example(training_material.question(i, PASSAGES[i]), PASSAGES[i].id, (PASSAGES[8 + i].id,) * (i % 3))
    for i in range(8)
]
RELATIVE = 1e-5


TAUGHT = [
    replace(example, teacher=tuple(float(i - 2 * j) for j in range(1 + len(example.negatives))))
    for i, example in enumerate(EXAMPLES)
]
"""The same with a teacher's logits."""


def collated(
    model: BiEncoder, settings: Train, group_cost: float = math.inf, examples: list[Example] = EXAMPLES
) -> TrainingBatch:
    return collator(model, settings, group_cost)(examples)


def collator(model: BiEncoder, settings: Train, group_cost: float = 64) -> Collator:
    by_id = {passage.id: passage for passage in PASSAGES}
    return Collator(model.layout, 0, by_id, settings, group_cost=group_cost)


def loss_and_gradients(
    model: BiEncoder, settings: Train, batch: TrainingBatch
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    stub: Any = SimpleNamespace(
        state=SimpleNamespace(global_step=0),
        stream=SimpleNamespace(steps_per_epoch=1, steps=1),
        settings=settings,
        collator=SimpleNamespace(layout=model.layout),
        _parts=defaultdict(list),
    )
    model.zero_grad()
    loss = BiEncoderTrainer.compute_loss(stub, model, cast(Any, batch))
    assert isinstance(loss, torch.Tensor)
    loss.backward()
    gradients = {name: value.grad for name, value in model.named_parameters()}
    return loss.detach(), {name: value.clone() for name, value in gradients.items() if value is not None}


@pytest.mark.parametrize("architecture", MODELS)
def test_groups_have_the_loss_and_the_gradients_of_the_whole_batch(
    base: Path, tmp_path: Path, architecture: str
) -> None:
    model, settings = trained(base, tmp_path, architecture)
    whole, grouped = collated(model, settings, math.inf), collated(model, settings, 64)
    assert len(whole["passages"]["batches"]) == 1 < len(grouped["passages"]["batches"])
    assert padded(grouped) < padded(whole)
    assert_equal(loss_and_gradients(model, settings, grouped), loss_and_gradients(model, settings, whole))


def trained(
    base: Path, folder: Path, name: str, dtype: torch.dtype = torch.float32
) -> tuple[BiEncoder, Train]:
    """A model of `MODELS` before its training, and the settings of its training."""
    architecture = MODELS[name]["architecture"]
    tied = architecture == "dual-cross"
    saved = training_material.saved_model(folder / "m", base, **MODELS[name], tied=tied)
    defaults = cast(dict[str, Any], LAYOUTS[architecture].defaults.get("train", {}))
    return BiEncoder.load(saved.path, dtype), Train(**{**defaults, "local_weight": 0.1})


def assert_equal(
    found: tuple[torch.Tensor, dict[str, torch.Tensor]],
    expected: tuple[torch.Tensor, dict[str, torch.Tensor]],
) -> None:
    """Asserts that the losses are equal, and the gradients, to the rounding of the largest of them."""
    (again, others), (loss, gradients) = found, expected
    torch.testing.assert_close(again.to(loss.dtype), loss, rtol=RELATIVE, atol=0)
    assert gradients.keys() == others.keys() and gradients
    largest = max(gradient.abs().max().item() for gradient in gradients.values())
    for name, gradient in gradients.items():
        other = others[name].to(gradient.dtype)
        torch.testing.assert_close(other, gradient, rtol=RELATIVE, atol=RELATIVE * largest, msg=name)


@pytest.mark.parametrize("architecture", ["camvr", "dual-cross", "sentence"])
def test_chunks_have_the_loss_and_the_gradients_of_the_whole_batch(
    base: Path, tmp_path: Path, architecture: str
) -> None:
    model, settings = trained(base, tmp_path, architecture)
    whole = collated(model, settings, math.inf)
    expected = loss_and_gradients(model, settings, whole)
    chunked = collated(model, settings.model_copy(update={"chunk": 3}), 64)
    groups = chunked["passages"]["batches"]
    assert max(len(group["input_ids"]) for group in groups) == 3
    model.encode_again = True
    assert_equal(loss_and_gradients(model, settings, chunked), expected)


def test_a_teacher_scores_each_questions_own_list(base: Path, tmp_path: Path) -> None:
    lay_out = collator(*trained(base, tmp_path, "camvr"))
    teacher = lay_out(TAUGHT)["teacher"]  # type: ignore[typeddict-item]
    ids = passage_ids(TAUGHT)
    assert teacher.shape == (8, len(ids))
    first = len(TAUGHT)
    for row, example in enumerate(TAUGHT):
        own = [row, *range(first, first := first + len(example.negatives))]
        assert [ids[column] for column in own] == [example.positive, *example.negatives]
        assert teacher[row, own].tolist() == list(example.teacher)
        assert torch.isfinite(teacher[row]).sum() == len(own)
    for rank in range(3):
        assert torch.equal(lay_out.share(TAUGHT, rank, 3)["teacher"], teacher)  # type: ignore[typeddict-item]
    assert "teacher" not in lay_out(EXAMPLES)


def test_chunks_replay_their_dropout_and_keep_no_activations(base: Path, tmp_path: Path) -> None:
    model, settings = trained(base, tmp_path, "camvr", torch.float64)
    set_dropout(model.train(), 0.3)
    batch = collated(model, settings.model_copy(update={"chunk": 3}), 64)
    results, kept = [], []
    for again in (False, True):
        model.encode_again = again
        saved: list[int] = []
        torch.manual_seed(1)
        with torch.autograd.graph.saved_tensors_hooks(
            lambda t, s=saved: (s.append(t.numel()), t)[1], lambda t: t
        ):
            results.append(loss_and_gradients(model, settings, batch))
        kept.append(sum(saved))
    assert_equal(*results)
    assert kept[1] < kept[0] / 10
    torch.manual_seed(2)
    assert not torch.equal(loss_and_gradients(model, settings, batch)[0], results[0][0])


def test_in_sequence_negatives_are_added_with_their_weight(base: Path, tmp_path: Path) -> None:
    model, settings = trained(base, tmp_path, "camvr")
    batch = collated(model, settings)
    without, once, twice = (
        loss_and_gradients(model, settings.model_copy(update={"in_sequence_weight": weight}), batch)[0]
        for weight in (0.0, 1.0, 2.0)
    )
    assert once > without
    torch.testing.assert_close(twice - once, once - without, rtol=1e-4, atol=1e-5)


def padded(batch: TrainingBatch) -> int:
    return sum(group["input_ids"].numel() for group in batch["passages"]["batches"])


NAMES = st.sampled_from("abcde")


@given(
    st.lists(
        st.tuples(NAMES, st.lists(NAMES, max_size=3), st.lists(NAMES, max_size=3)), min_size=1, max_size=7
    ),
    st.none() | st.integers(1, 4),
    st.sampled_from([{}, {"b": "a", "a": "a"}, {"c": "b", "b": "b", "e": "b", "a": "a", "d": "a"}]),
)
def test_excluded_passages_are_those_of_the_plain_rule(drawn, group, equal):
    """Every passage with the text of a positive, whether that positive is in the batch or not; `equal` are ids of equal texts."""
    examples = [
        Example(Question(f"q{n}", "?", (), None, (positive, *others)), positive, tuple(negatives))
        for n, (positive, others, negatives) in enumerate(drawn)
    ]
    ids, size = passage_ids(examples), group or len(examples)
    owners = [*range(len(examples)), *(n for n, example in enumerate(examples) for _ in example.negatives)]
    for n, example in enumerate(examples):
        gold = {equal.get(name, name) for name in example.question.positive_ids}
        expected = [
            column != n and (equal.get(name, name) in gold or owner // size != n // size)
            for column, (name, owner) in enumerate(zip(ids, owners, strict=True))
        ]
        assert excluded_passages(examples, ids, group, equal)[n].tolist() == expected
