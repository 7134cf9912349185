"""The training step: its resumption, what it reports, and what it refuses."""

import pickle
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import numpy as np
import pytest
import torch
from transformers import TrainingArguments

from multiview.config import Config, Questions, Train
from multiview.data.passages import Passage
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
from tests.fixtures.full_gpu import full
from tests.fixtures.payload import Payload
from tests.fixtures.trainings import Fit, data, fit, start

__all__ = ["data", "fit", "start"]


def test_warm_up_is_as_set_but_never_most_of_a_short_run() -> None:
    events = RecordedEvents()
    assert warmup_steps(Train(), 10_000, events) == 1237 and not events.warnings
    assert warmup_steps(Train(), 100, events) == 10 and len(events.warnings) == 1
    assert warmup_steps(Train(warmup_steps=None, warmup_ratio=0.2), 100, events) == 20


def test_a_pickle_in_place_of_any_file_of_a_checkpoint_is_not_run(fit: Fit, tmp_path: Path) -> None:
    """As pickle writes it, and as torch does: a checkpoint's own files of optimizer and random states are torch's."""
    mark, kept = tmp_path / "mark", KeptCheckpoints(tmp_path / "kept", stop_after=4)
    with pytest.raises(KeyboardInterrupt):
        fit("killed", checkpoints=kept)
    checkpoint = kept.latest()
    assert checkpoint is not None
    files = [file for file in checkpoint.rglob("*") if file.is_file()]
    assert {"optimizer.pt", "scheduler.pt", "rng_state.pth"} <= {file.name for file in files}
    for number, file in enumerate(files):
        content = file.read_bytes()
        for write in (
            lambda file: file.write_bytes(pickle.dumps(Payload(mark))),
            partial(torch.save, Payload(mark)),
        ):
            write(file)
            with suppress(Exception):
                fit(f"{number}", checkpoints=kept, max_steps=5)
            assert not mark.exists(), f"{file.name} was unpickled"
        file.write_bytes(content)


@pytest.mark.parametrize(
    ("settings", "epochs", "said"), [({}, 1, True), ({}, 2, False), ({"clock": "progress"}, 1, False)]
)
def test_a_temperature_that_a_single_epoch_does_not_anneal_is_said(
    fit: Fit, settings: dict[str, str], epochs: int, said: bool
) -> None:
    events = RecordedEvents()
    fit("out", events, temperature={"schedule": "annealed", **settings}, epochs=epochs)
    assert any("it stays 1 in a single one" in line for line in events.warnings) == said


def test_a_base_without_tokens_for_the_passages_is_said(fit: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here as if none were few enough."""
    events = RecordedEvents()
    fit("known", events)
    assert not events.warnings
    monkeypatch.setattr("multiview.model.base_model.loading.UNKNOWN", -1.0)
    fit("unknown", events)
    assert "has no tokens for 0% of the first passages" in events.warnings[0]


def test_a_training_that_goes_on_keeps_checkpoints_as_often_as_it_is_told(fit: Fit, tmp_path: Path) -> None:
    kept = KeptCheckpoints(tmp_path / "checkpoints", stop_after=4)
    with pytest.raises(KeyboardInterrupt):
        fit("killed", checkpoints=kept)
    fit("resumed", checkpoints=kept, checkpoint_steps=3)
    assert sorted(int(folder.name) for folder in kept.folder.iterdir()) == [4, 6, 9]


def test_weights_are_the_same_whatever_works_ahead_and_where_it_was_killed(
    fit: Fit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = fit("here").state_dict()
    monkeypatch.setattr(devices, "CPU_WORKERS", 2)
    kept = KeptCheckpoints(tmp_path / "checkpoints", stop_after=8)
    with pytest.raises(KeyboardInterrupt):
        fit("killed", checkpoints=kept)
    kept.stop_after = None
    ahead = fit("resumed", checkpoints=kept).state_dict()
    assert all(torch.equal(here[name], ahead[name]) for name in here)


def test_the_optimizer_steps_in_one_kernel(fit: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, steps = getattr(torch, "_fused_adamw_"), []  # noqa: B009 (torch exports it to its optimizers alone)

    def counted(*arguments: Any, **named: Any) -> None:
        steps.append(len(arguments[0]))
        kernel(*arguments, **named)

    monkeypatch.setattr(torch, "_fused_adamw_", counted)
    fit("out", max_steps=3)
    # Weights with decay and those without are two groups.
    assert len(steps) == 2 * 3 and min(steps) > 1


VALIDATED = {"validate_steps": 10, "validation_questions": 2, "validation_passages": 4}


@pytest.mark.parametrize(
    ("steps", "validation", "says"),
    [
        (4, {}, "the loss is NaN or infinite by step"),
        (1, {}, "some weights are NaN or infinite"),
        (1, VALIDATED, "some weights are NaN or infinite"),
    ],
)
def test_a_training_that_diverges_is_not_published(
    fit: Fit, tmp_path: Path, steps: int, validation: dict[str, Any], says: str
) -> None:
    far: dict[str, Any] = {"learning_rate": 1e38, "warmup_steps": 0, "weight_decay": 1.0, "max_steps": steps}
    with pytest.raises(InputError, match=rf"diverged: {says}.*; lower train.learning_rate=1e\+38"):
        fit("out", **far, **validation)
    assert not list((tmp_path / "out").rglob("*.safetensors"))


def test_training_lowers_the_loss_and_says_what_it_was_made_of(
    fit: Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("multiview.training.trainer.LOG_STEPS", 1)
    events = RecordedEvents()
    options: dict[str, Any] = {"temperature": {"schedule": "annealed"}, "local_weight": 0.01, "epochs": 12}
    fit("out", events, dropout=0.0, **options)
    metrics: dict[str, list[float]] = {}
    for name, value, step in events.metrics:
        assert step is not None
        metrics.setdefault(name, []).append(value)
    assert metrics["contrastive_loss"][-1] < 0.5 * metrics["contrastive_loss"][0]
    assert metrics["temperature"][0] == 1 and metrics["temperature"][-1] == pytest.approx(
        2.718281828 ** (-1.1)
    )
    # Linear: two steps of warm-up, then down to 0.
    assert metrics["learning_rate"] == pytest.approx([0, 5e-4, *np.linspace(1e-3, 0, 34, endpoint=False)])
    assert 0 <= metrics["fallback_share"][0] <= 1
    wins = [metrics[f"view_{view}_wins"][0] for view in range(1, 5)]
    assert sum(wins) == pytest.approx(1)
    logged = {"loss", "grad_norm", "learning_rate", "local_loss", "epoch", "in_batch_accuracy"}
    assert logged <= metrics.keys()
    assert events.steps[-1] == (36, 36, "steps")
    assert events.facts["steps"] == 36 and events.facts["dropped_questions"] == 0


def test_bfloat16_and_recomputed_activations_train_too(fit: Fit) -> None:
    """Also both, as paper-camvr has them."""
    events = RecordedEvents()

    def weights(name: str, **options: Any) -> dict[str, torch.Tensor]:
        return fit(name, events, max_steps=2, dropout=0.0, **options).state_dict()

    for precision in ("float32", "bfloat16"):
        plain = weights(precision, precision=precision)
        again = weights(f"{precision}-again", precision=precision, gradient_checkpointing=True)
        for name, value in plain.items():
            assert value.dtype == torch.float32 and value.isfinite().all()
            torch.testing.assert_close(again[name], value, atol=2e-5, rtol=1e-4)
    # A run shorter than log_steps is not silent.
    assert ("learning_rate", 2) in [(name, step) for name, _, step in events.metrics]


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
    inputs = training_material.training_inputs(tmp_path, passages, questions, pool)
    events = RecordedEvents()
    settings = Config(train=Train(batch_size=8), questions=Questions(answer_matching="regex"))
    found = training_data(StepContext(settings, inputs, {}, events), tmp_path)
    items = found.stream
    assert found.matching == "regex"
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
    # Offsets into another of its positives say nothing of this one, and an answer may be a pattern.
    other = replace(questions[0], positive_ids=("p000", "p001"), answer_starts=(0,))
    pattern = replace(questions[0], answers=(r"number \d",))
    for question, matching in ((other, "string"), (pattern, "regex")):
        batch = replace(collate, matching=matching)([Example(question, "p001", ())])
        assert batch["answer_views"].tolist() == [[False, False, True, False]]


def test_a_snippet_that_holds_the_answer_too_is_no_other_view(base: Path, tmp_path: Path) -> None:
    """The offset says which view is the answer's, not which hold it: a snippet with the answer is never its negative,
    and a positive of its own where each is."""
    model = BiEncoder.load(training_material.saved_model(tmp_path / "m", base, merge_title=False).path)
    text = "He lived in Paris. It rained. He died in Paris."
    about = Passage("p001", "", text, (19, 30, len(text)))
    holders = [True, False, True, False]
    for settings in (
        Train(positive="answer", in_sequence_weight=0.1),
        Train(positive="both", in_sequence_weight=0.1),
        Train(positive="each"),
    ):
        collate = Collator(model.layout, 0, {"p001": about}, settings)
        for starts in ((41,), None):
            batch = collate([Example(Question("q", "Where?", ("Paris",), starts, ("p001",)), "p001", ())])
            is_exact = starts is not None and settings.positive != "each"
            assert batch["answer_views"].tolist() == [[False, False, True, False] if is_exact else holders]
            assert batch["other_views"].tolist() == [[False, True, False, False]]


def test_training_checks_its_settings_against_the_model(fit: Fit, base: Path, tmp_path: Path) -> None:
    model = training_material.saved_model(tmp_path / "mvr", base, architecture="mvr")
    with pytest.raises(InputError, match=r"train\.positive"):
        fit("out", model=model)


@pytest.mark.parametrize(
    ("where", "options", "hint"),
    [
        ("__init__", {}, "set train.chunk, such as to 64 .* other dropout masks"),
        ("training_step", {"chunk": 8}, "set train.chunk below 8 or train.gradient_checkpointing=true$"),
        ("__init__", {"chunk": 8, "gradient_checkpointing": True}, "set train.chunk below 8$"),
        ("__init__", {"chunk": 1}, "set train.gradient_checkpointing=true$"),
        ("__init__", {"chunk": 1, "gradient_checkpointing": True}, "set a smaller model.passage_length$"),
    ],
)
def test_a_gpu_that_is_full_has_a_hint(
    fit: Fit, monkeypatch: pytest.MonkeyPatch, where: str, options: dict[str, Any], hint: str
) -> None:
    """In a step, or where the model moves to the GPU."""
    monkeypatch.setattr(BiEncoderTrainer, where, full)
    with pytest.raises(InputError, match=f"^the GPU's memory is full: {hint}"):
        fit("out", **options)


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


@pytest.mark.parametrize(
    ("asked", "options"),
    [((0, 1), {"batch_size": 1}), ((0, 1), {"negative_group": 1}), ((0, 0), {}), ((0, 8), {})],
)
def test_a_training_without_any_negative_is_refused(
    tmp_path: Path, asked: tuple[int, int], options: dict[str, Any]
) -> None:
    passages = [training_material.passage(number) for number in range(8)]
    passages.append(replace(passages[0], id="p8"))
    questions = [
        replace(training_material.question(n, passages[of % 8]), positive_ids=(passages[of].id,))
        for n, of in enumerate(asked)
    ]
    few = training_material.training_inputs(tmp_path, passages, questions, {})
    context = StepContext(Config(train=Train(**options), questions=Questions()), few, {}, RecordedEvents())
    with pytest.raises(InputError, match="leaves no negative to learn from; give more of either"):
        training_data(context, tmp_path)
    for weight in ("local_weight", "in_sequence_weight"):  # other views of the same passage are negatives
        train = Train(**options, **{weight: 0.1, "positive": "answer"})
        training_data(replace(context, settings=Config(train=train, questions=Questions())), tmp_path)
