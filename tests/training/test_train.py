"""The training step: its resumption, what it reports, and what it refuses."""

import pickle
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pytest
import torch
from transformers import TrainingArguments

from multiview.artifacts.staging import LocalArtifact
from multiview.config import Config, Train
from multiview.data.questions import Question
from multiview.errors import InputError
from multiview.model import devices
from multiview.model.encoder import BiEncoder
from multiview.steps.context import StepContext
from multiview.training.batches import Collator
from multiview.training.data import training_data
from multiview.training.example_order import Example, QuestionStream
from multiview.training.trainer import BiEncoderTrainer, ProcessArguments, warmup_steps
from tests.fixtures import training_material
from tests.fixtures.checkpoints import KeptCheckpoints
from tests.fixtures.events import RecordedEvents
from tests.fixtures.payload import Payload
from tests.fixtures.trainings import data, run

__all__ = ["data"]


def test_warm_up_is_as_set_but_never_most_of_a_short_run() -> None:
    events = RecordedEvents()
    assert warmup_steps(Train(), 10_000, events) == 1237 and not events.warnings
    assert warmup_steps(Train(), 100, events) == 10 and len(events.warnings) == 1
    assert warmup_steps(Train(warmup_steps=None, warmup_ratio=0.2), 100, events) == 20


def weights(model: BiEncoder) -> dict[str, torch.Tensor]:
    return model.state_dict()


@pytest.mark.parametrize("tied", [False, True])
def test_a_killed_run_ends_with_the_very_weights_of_an_uninterrupted_one(
    data: dict[str, LocalArtifact],
    base: Path,
    tmp_path: Path,
    tied: bool,
) -> None:
    model = training_material.saved_model(tmp_path / "start", base, tied=tied)
    whole = run(data, model, tmp_path / "whole", RecordedEvents())
    kept = KeptCheckpoints(tmp_path, stop_after=8)
    kept.folder = tmp_path / "checkpoints"
    with pytest.raises(KeyboardInterrupt):
        run(data, model, tmp_path / "killed", RecordedEvents(), kept)
    kept.stop_after = None
    resumed = run(data, model, tmp_path / "resumed", RecordedEvents(), kept)
    expected, got, start = weights(whole), weights(resumed), weights(BiEncoder.load(model.path))
    assert expected.keys() == got.keys()
    assert all(torch.equal(expected[name], got[name]) for name in expected)
    assert any(not torch.equal(expected[name], start[name]) for name in expected)


def test_a_pickle_in_place_of_any_file_of_a_checkpoint_is_not_run(
    data: dict[str, LocalArtifact], base: Path, tmp_path: Path
) -> None:
    """As pickle writes it, and as torch does: a checkpoint's own files of optimizer and random states are torch's."""
    model, mark = training_material.saved_model(tmp_path / "start", base), tmp_path / "mark"
    kept = KeptCheckpoints(tmp_path / "kept", stop_after=4)
    with pytest.raises(KeyboardInterrupt):
        run(data, model, tmp_path / "killed", RecordedEvents(), kept)
    checkpoint = kept.latest()
    assert checkpoint is not None
    files = [file for file in checkpoint.rglob("*") if file.is_file()]
    assert {"optimizer.pt", "scheduler.pt", "rng_state.pth"} <= {file.name for file in files}
    for number, file in enumerate(files):
        content = file.read_bytes()
        for form in ("pickle", "torch"):
            if form == "pickle":
                file.write_bytes(pickle.dumps(Payload(mark)))
            else:
                torch.save(Payload(mark), file)
            with suppress(Exception):
                run(data, model, tmp_path / f"{form}-{number}", RecordedEvents(), kept)
            assert not mark.exists(), f"{file.name} was unpickled"
        file.write_bytes(content)


def test_weights_are_the_same_whatever_works_ahead(
    data: dict[str, LocalArtifact], base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = training_material.saved_model(tmp_path / "start", base)
    here = weights(run(data, model, tmp_path / "here", RecordedEvents()))
    monkeypatch.setattr(devices, "CPU_WORKERS", 2)
    ahead = weights(run(data, model, tmp_path / "ahead", RecordedEvents()))
    assert all(torch.equal(here[name], ahead[name]) for name in here)
    kept = KeptCheckpoints(tmp_path, stop_after=8)
    kept.folder = tmp_path / "checkpoints"
    with pytest.raises(KeyboardInterrupt):
        run(data, model, tmp_path / "killed", RecordedEvents(), kept)
    kept.stop_after = None
    resumed = weights(run(data, model, tmp_path / "resumed", RecordedEvents(), kept))
    assert all(torch.equal(here[name], resumed[name]) for name in here)


def test_the_optimizer_steps_in_one_kernel(
    data: dict[str, LocalArtifact], base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, steps = getattr(torch, "_fused_adamw_"), []  # noqa: B009 (torch exports it to its optimizers alone)

    def counted(*arguments: Any, **named: Any) -> None:
        steps.append(len(arguments[0]))
        kernel(*arguments, **named)

    monkeypatch.setattr(torch, "_fused_adamw_", counted)
    model = training_material.saved_model(tmp_path / "start", base)
    run(data, model, tmp_path / "out", RecordedEvents(), max_steps=3)
    # Weights with decay and those without are two groups.
    assert len(steps) == 2 * 3 and min(steps) > 1


@pytest.mark.parametrize(
    ("steps", "validation", "says"),
    [
        (4, {}, "the loss is NaN or infinite by step"),
        (1, {}, "some weights are NaN or infinite"),
        (
            1,
            {"validate_steps": 10, "validation_questions": 2, "validation_passages": 4},
            "some weights are NaN or infinite",
        ),
    ],
)
def test_a_training_that_diverges_is_not_published(
    data: dict[str, LocalArtifact],
    base: Path,
    tmp_path: Path,
    steps: int,
    validation: dict[str, Any],
    says: str,
) -> None:
    model = training_material.saved_model(tmp_path / "start", base)
    options: dict[str, Any] = {
        "learning_rate": 1e38,
        "warmup_steps": 0,
        "weight_decay": 1.0,
        "max_steps": steps,
        **validation,
    }
    with pytest.raises(InputError, match=rf"diverged: {says}.*; lower train.learning_rate=1e\+38"):
        run(data, model, tmp_path / "out", RecordedEvents(), **options)
    assert not list((tmp_path / "out").rglob("*.safetensors"))


def test_training_lowers_the_loss_and_says_what_it_was_made_of(
    data: dict[str, LocalArtifact], base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("multiview.training.trainer.LOG_STEPS", 1)
    events = RecordedEvents()
    options: dict[str, Any] = {
        "temperature": {"schedule": "annealed"},
        "local_weight": 0.01,
        "dropout": 0.0,
        "epochs": 12,
    }
    run(data, training_material.saved_model(tmp_path / "start", base), tmp_path / "out", events, **options)
    metrics: dict[str, list[float]] = {}
    for name, value, step in events.metrics:
        assert step is not None
        metrics.setdefault(name, []).append(value)
    assert metrics["contrastive_loss"][-1] < 0.5 * metrics["contrastive_loss"][0]
    assert metrics["temperature"][0] == 1 and metrics["temperature"][-1] == pytest.approx(
        2.718281828 ** (-1.1)
    )
    assert 0 <= metrics["fallback_share"][0] <= 1
    wins = [metrics[f"view_{view}_wins"][0] for view in range(1, 5)]
    assert sum(wins) == pytest.approx(1)
    assert {
        "loss",
        "grad_norm",
        "learning_rate",
        "local_loss",
        "epoch",
        "in_batch_accuracy",
    } <= metrics.keys()
    assert events.steps[-1] == (36, 36, "steps")
    assert events.facts["steps"] == 36 and events.facts["dropped_questions"] == 0


def test_bfloat16_and_recomputed_activations_train_too(
    data: dict[str, LocalArtifact], base: Path, tmp_path: Path
) -> None:
    model = training_material.saved_model(tmp_path / "start", base)
    plain = run(data, model, tmp_path / "a", RecordedEvents(), max_steps=2, dropout=0.0)
    again = run(
        data, model, tmp_path / "b", RecordedEvents(), max_steps=2, dropout=0.0, gradient_checkpointing=True
    )
    for name, value in weights(plain).items():
        torch.testing.assert_close(weights(again)[name], value, atol=2e-5, rtol=1e-4)
    events = RecordedEvents()
    half = run(data, model, tmp_path / "c", events, max_steps=2, dropout=0.0, precision="bfloat16")
    # A run shorter than log_steps is not silent.
    assert ("learning_rate", 2) in [(name, step) for name, _, step in events.metrics]
    assert all(value.dtype == torch.float32 and value.isfinite().all() for value in weights(half).values())
    both = run(  # as paper-camvr has them
        data,
        model,
        tmp_path / "d",
        RecordedEvents(),
        max_steps=2,
        dropout=0.0,
        precision="bfloat16",
        gradient_checkpointing=True,
    )
    for name, value in weights(half).items():
        torch.testing.assert_close(weights(both)[name], value, atol=2e-5, rtol=1e-4)


def test_a_question_without_its_positive_is_dropped_and_a_positive_is_never_a_hard_negative(
    tmp_path: Path,
) -> None:
    passages = [training_material.passage(i) for i in range(5)]
    questions = [
        Question("q0", "?", ("x",), (3,), ("gone", "p001")),
        Question("q1", "?", ("x",), None, ("gone",)),
        Question("q2", "?", ("x",), None, ("p002",)),
    ]
    pool = {"q0": ["p001", "p003"], "q2": ["p004"]}
    inputs = {
        "passages": training_material.write_shard(tmp_path / "passages", passages),
        **training_material.write_training_data(tmp_path, questions, pool),
    }
    events = RecordedEvents()
    found = training_data(StepContext(Config(train=Train(batch_size=8)), inputs, {}, events), tmp_path)
    items = found.stream
    assert isinstance(items, QuestionStream)
    assert items.positives == [["p001"], ["p002"]]
    assert items.pool == {"q0": {"bm25": ["p003"]}, "q2": {"bm25": ["p004"]}}
    assert set(found.passages) == {"p001", "p002", "p003", "p004"}
    assert events.facts["dropped_questions"] == 1 and items.batch_size == 2
    with pytest.raises(InputError, match="no question"):
        training_material.write_training_data(tmp_path, questions[1:2], {})
        training_data(StepContext(Config(), inputs, {}, events), tmp_path)


def test_the_batch_finds_every_view_and_the_answers_view(base: Path, tmp_path: Path) -> None:
    model = BiEncoder.load(training_material.saved_model(tmp_path / "m", base, merge_title=False).path)
    passages = [training_material.passage(i, sentences=count) for i, count in ((1, 2), (2, 3))]
    questions = [training_material.question(i + 1, p) for i, p in enumerate(passages)]
    texts = {p.id: p for p in passages}
    collate = Collator(model.layout, 0, texts, Train(positive="answer"))
    batch = collate([Example(q, p.id, ()) for q, p in zip(questions, passages, strict=True)])
    # Title, two or three sentences, and the rest padding; the answer is in the last sentence.
    assert batch["real_views"].tolist() == [[True, True, True, False], [True] * 4]
    assert batch["answer_views"].tolist() == [[False, False, True, False], [False, False, False, True]]
    assert batch["view_mask"].all() and batch["view_index"].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_training_checks_its_settings_against_the_model(
    data: dict[str, LocalArtifact], base: Path, tmp_path: Path
) -> None:
    model = training_material.saved_model(tmp_path / "mvr", base, architecture="mvr")
    with pytest.raises(InputError, match=r"train\.positive"):
        run(data, model, tmp_path / "out", RecordedEvents())


@pytest.mark.parametrize("where", ["__init__", "training_step"])
@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({}, "set train.chunk, such as to 64 .* other dropout masks"),
        ({"chunk": 8}, "set train.chunk below 8 or train.gradient_checkpointing=true$"),
        ({"chunk": 8, "gradient_checkpointing": True}, "set train.chunk below 8$"),
        ({"chunk": 1}, "set train.gradient_checkpointing=true$"),
        ({"chunk": 1, "gradient_checkpointing": True}, "set a smaller model.passage_length$"),
    ],
)
def test_a_gpu_that_is_full_has_a_hint(
    data: dict[str, LocalArtifact],
    base: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    hint: str,
    where: str,
) -> None:
    """torch's error is raised here by hand, in a step or where the model moves to the GPU: no GPU is needed."""

    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr(BiEncoderTrainer, where, full)
    model = training_material.saved_model(tmp_path / "camvr", base)
    with pytest.raises(InputError, match=f"^the GPU's memory is full: {hint}"):
        run(data, model, tmp_path / "out", RecordedEvents(), **options)


def test_scores_are_taken_in_float32_inside_autocast() -> None:
    """`compute_loss` under bfloat16 autocast, as Trainer calls it, equals the plain float64 formula at scores of 130,
    where bfloat16 knows whole numbers only."""
    generator = torch.Generator().manual_seed(0)
    common = torch.randn(16, generator=generator) * 6
    questions = common + torch.randn(3, 16, generator=generator) * 0.1
    vectors = common * 0.22 + torch.randn(3, 2, 16, generator=generator) * 0.02
    ones = torch.ones(3, 2, dtype=torch.bool)
    batch = {
        "questions": None,
        "passages": None,
        "view_index": torch.arange(6).reshape(3, 2),
        "view_mask": ones,
        "positive": torch.arange(3),
        "excluded": torch.zeros(3, 3, dtype=torch.bool),
        "real_views": ones,
        "answer_views": None,
    }
    stub = SimpleNamespace(
        state=SimpleNamespace(global_step=0),
        stream=SimpleNamespace(steps_per_epoch=1, steps=1),
        settings=Train(),
        collator=SimpleNamespace(layout=SimpleNamespace(nested=False)),
        _parts=defaultdict(list),
    )
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = BiEncoderTrainer.compute_loss(
            cast(Any, stub), cast(Any, lambda *_: (questions, vectors)), batch
        )
    scores = (questions.double() @ vectors.double().flatten(0, 1).T).reshape(3, 3, 2).amax(-1)
    assert scores.max() > 100
    expected = -torch.log_softmax(scores, 1).diagonal().mean()
    assert isinstance(loss, torch.Tensor)
    torch.testing.assert_close(loss.double(), expected, atol=1e-4, rtol=1e-4)


def test_a_process_drives_one_gpu(tmp_path):
    with mock.patch.object(TrainingArguments, "n_gpu", 4):
        assert ProcessArguments(str(tmp_path), use_cpu=True).n_gpu == 1
