"""Fine-tuning a tiny T5 on questions and their gold passages."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, Trainer

from multiview.artifacts.staging import LocalArtifact
from multiview.config import Config, Generation, GeneratorTraining
from multiview.data.questions import Question
from multiview.errors import InputError
from multiview.generation.generators import load
from multiview.generation.train import gold_pairs, tokens, train_generator
from multiview.steps.checkpoints import NO_CHECKPOINTS, Checkpoints
from multiview.steps.context import StepContext
from multiview.training import trainer
from tests.fixtures import training_material
from tests.fixtures.checkpoints import KeptCheckpoints
from tests.fixtures.events import RecordedEvents
from tests.fixtures.full_gpu import full
from tests.fixtures.tiny import tiny_t5

PASSAGES = [training_material.passage(number) for number in range(12)]


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> LocalArtifact:
    return LocalArtifact(tiny_t5(tmp_path_factory.mktemp("t5")), "t5")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LocalArtifact]:
    folder = tmp_path_factory.mktemp("data")
    questions = [training_material.question(number, passage) for number, passage in enumerate(PASSAGES)]
    asked = training_material.write_training_data(folder, questions, {})["questions"]
    return {"passages": training_material.write_shard(folder / "passages", PASSAGES), "questions": asked}


@pytest.fixture
def fit(t5, data, tmp_path) -> Callable[..., dict[str, torch.Tensor]]:
    """Trains into a folder of the test's, and returns the weights."""

    def fit(
        output: str,
        events: RecordedEvents,
        kept: Checkpoints = NO_CHECKPOINTS,
        base: LocalArtifact = t5,
        **options: Any,
    ) -> dict[str, torch.Tensor]:
        chosen = {"batch_size": 4, "epochs": 2, "learning_rate": 3e-3, "checkpoint_steps": 2, **options}
        training = GeneratorTraining.model_validate(chosen)
        settings = Config.partial({"generation": Generation(train=training, max_length=12)})
        outputs = {"generator": tmp_path / output}
        train_generator(StepContext(settings, {"base": base, **data}, outputs, events, kept))
        return load(tmp_path / output)[0].state_dict()

    return fit


def test_a_killed_run_ends_with_the_very_weights_of_an_uninterrupted_one(fit, t5, tmp_path):
    whole = fit("whole", RecordedEvents())
    kept = KeptCheckpoints(tmp_path / "checkpoints", stop_after=4)
    with pytest.raises(KeyboardInterrupt):
        fit("killed", RecordedEvents(), kept)
    kept.stop_after = None
    events = RecordedEvents()
    resumed = fit("resumed", events, kept)
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    assert [step for step, _, _ in events.steps] == [5, 6]
    start = load(t5.path)[0].state_dict()
    assert any(not torch.equal(whole[name], start[name]) for name in whole)


def test_it_is_taught_the_same_where_a_tokenizer_fills_and_cuts_on_the_left(fit, t5, tmp_path):
    """As Gemma's."""
    left = Path(shutil.copytree(t5.path, tmp_path / "left"))
    settings = json.loads((left / "tokenizer_config.json").read_text())
    settings |= {"padding_side": "left", "truncation_side": "left"}
    (left / "tokenizer_config.json").write_text(json.dumps(settings))
    assert AutoTokenizer.from_pretrained(left).padding_side == "left"
    expected = fit("right", RecordedEvents())
    found = fit("cut", RecordedEvents(), base=LocalArtifact(left, "left"))
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_it_learns_to_ask_and_says_so(fit, tmp_path, monkeypatch):
    events = RecordedEvents()
    monkeypatch.setattr(trainer, "LOG_STEPS", 3)
    fit("out", events, epochs=6)
    losses = [(step, value) for name, value, step in events.metrics if name == "loss"]
    assert losses[-1][1] < 0.7 * losses[0][1]
    logged = sorted({*range(3, 19, 3), *range(2, 19, 2)})
    assert [step for step, _ in losses] == logged, "at checkpoints too"
    assert {name for name, _, _ in events.metrics} == {"loss", "grad_norm", "learning_rate", "epoch"}
    assert events.steps[-1] == (18, 18, "steps") and events.facts["pairs"] == 12
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= names
    assert not any(name.endswith((".bin", ".pt", ".pth")) for name in names)


def test_half_precision_trains_float32_weights(fit):
    trained = fit("out", RecordedEvents(), max_steps=2, precision="bfloat16")
    assert all(value.dtype == torch.float32 and value.isfinite().all() for value in trained.values())


def test_a_gpu_that_is_full_has_a_hint(fit, monkeypatch):
    monkeypatch.setattr(Trainer, "training_step", full)
    hint = r"^the GPU's memory is full: set generation.train.batch_size below 4$"
    with pytest.raises(InputError, match=hint):
        fit("out", RecordedEvents())


@pytest.mark.parametrize(("most", "steps"), [(5, 5), (50, 6)])
def test_max_steps_ends_a_training_earlier_and_never_later(fit, most, steps):
    events = RecordedEvents()
    fit("out", events, max_steps=most)
    assert events.steps[-1] == (steps, steps, "steps")


def test_a_pair_is_the_passage_read_and_the_question_asked(t5: LocalArtifact) -> None:
    _, tokenizer = load(t5.path)
    row = tokens(PASSAGES[1], "Who lost the war?", tokenizer, Generation(max_length=5), 48)
    read = tokenizer.decode(row["input_ids"])
    assert read.startswith("old europe") and read.endswith("text number 1. [SEP]")
    assert tokenizer.decode(row["labels"]) == "who lost the war [SEP]", "cut to five tokens"


def test_the_first_gold_passage_counts_and_questions_without_one_are_dropped(
    data: dict[str, LocalArtifact], tmp_path: Path
) -> None:
    def pairs(questions: list[Question], events: RecordedEvents) -> list[tuple[str, str]]:
        asked = training_material.write_training_data(tmp_path, questions, {})["questions"]
        found = gold_pairs(data["passages"].path, asked.path, events)
        return [(passage.id, question) for passage, question in found]

    without = Question("q1", "B?", ("x",), None, ())
    events = RecordedEvents()
    several = [Question("q0", "A?", ("x",), None, ("p002", "p001")), without]
    assert pairs(several, events) == [("p002", "A?")]
    assert events.facts == {"pairs": 1, "dropped_questions": 1}
    with pytest.raises(InputError, match="no question has a gold passage"):
        pairs([without], RecordedEvents())
    with pytest.raises(InputError, match="'gone'"):
        pairs([Question("q0", "A?", ("x",), None, ("gone",))], RecordedEvents())


def test_a_generator_that_diverged_is_not_handed_on(fit, tmp_path):
    line = r"^the training of the generator diverged: .*; lower generation.train.learning_rate=1e\+20$"
    with pytest.raises(InputError, match=line):
        fit("out", RecordedEvents(), learning_rate=1e20, epochs=4)
    assert not (tmp_path / "out").exists() or not any((tmp_path / "out").iterdir())
