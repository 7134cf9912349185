"""A cross-encoder's scores of what each question trains on, beside transformers' plain call, and the training on them."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from multiview.artifacts.staging import LocalArtifact
from multiview.config import Config, Corpus, Encode, Mining, Questions, Train
from multiview.errors import InputError
from multiview.negatives.cross_encoder import read_teacher, teach, teacher_accuracy
from multiview.negatives.mining import cross_encoder_fingerprint, teacher_fingerprint
from multiview.negatives.negatives_file import SCHEMA, with_positives
from multiview.steps.context import StepContext
from multiview.training.data import training_data
from multiview.training.train import train
from tests.fixtures import training_material
from tests.fixtures.base_model import one_thread
from tests.fixtures.cross_encoders import classifier, plain_logits
from tests.fixtures.events import RecordedEvents

__all__ = ["one_thread"]

PASSAGES = [training_material.passage(i, sentences=1 + i % 4) for i in range(12)]
QUESTIONS = [training_material.question(i, PASSAGES[i]) for i in range(6)]
POOL = {q.qid: [PASSAGES[(3 * i + j) % 12].id for j in range(1, 5)] for i, q in enumerate(QUESTIONS)}


@pytest.fixture(scope="module")
def judge(tmp_path_factory) -> Path:
    return classifier(tmp_path_factory.mktemp("judge"))


@pytest.fixture
def data(tmp_path) -> dict[str, LocalArtifact]:
    return training_material.training_inputs(tmp_path, PASSAGES, QUESTIONS, POOL)


def taught(judge: Path, data: dict[str, LocalArtifact], folder: Path) -> tuple[LocalArtifact, RecordedEvents]:
    """The negatives with the judge's scores."""
    folder.mkdir()
    settings = {"mining": Mining(cross_encoder=str(judge)), "encode": Encode(batch_tokens=256)}
    inputs = {**data, "hard_negatives": data["negatives"]}
    events = RecordedEvents()
    teach(StepContext(Config.partial(settings), inputs, {"negatives": folder}, events))
    return LocalArtifact(folder, "taught"), events


def test_logits_are_the_model_s_own_and_the_negatives_stay_as_they_are(judge, data, tmp_path):
    found, events = taught(judge, data, tmp_path / "out")
    of_question = read_teacher(found.path)
    texts = {passage.id: f"{passage.title} {passage.text}".strip() for passage in PASSAGES}
    for asked in QUESTIONS:
        ids = list(dict.fromkeys([*asked.positive_ids, *POOL[asked.qid]]))
        assert list(of_question[asked.qid]) == ids
        expected = plain_logits(judge, [(asked.question, texts[id_]) for id_ in ids])
        np.testing.assert_allclose(list(of_question[asked.qid].values()), expected, atol=1e-4)
    before = data["negatives"].path / "negatives.parquet"
    assert (found.path / "negatives.parquet").read_bytes() == before.read_bytes()
    assert events.facts == {"questions": 6, "pairs": sum(map(len, of_question.values()))}
    assert [name for name, *_ in events.metrics] == ["teacher_accuracy"]
    again, _ = taught(judge, data, tmp_path / "again")
    assert (again.path / "teacher.parquet").read_bytes() == (found.path / "teacher.parquet").read_bytes()


def test_found_positives_are_scored_and_passages_that_the_corpus_lacks_are_not(
    judge, data, tmp_path, monkeypatch
):
    """A found positive that the teacher puts above the first one is no error of the teacher."""
    of_id = {"p008": 1.0, "p011": -1.0}
    monkeypatch.setattr(
        "multiview.negatives.cross_encoder.logits",
        lambda rows, wanted, ids, *_: np.array([of_id.get(id_, 0.0) for id_ in ids.to_pylist()])[rows],
    )
    rows = [
        {"qid": q.qid, "source": "mined", "negative_ids": ["p011", "gone"], "scores": [2.0, 1.0]}
        for q in QUESTIONS
    ]
    table, found = pa.Table.from_pylist(rows, schema=SCHEMA), np.zeros((len(rows), 1), bool)
    found[2] = True
    table = with_positives(table, np.full(found.shape, 8), found, pa.array([p.id for p in PASSAGES]))
    pq.write_table(table, data["negatives"].path / "negatives.parquet")
    given, events = taught(judge, data, tmp_path / "out")
    of_question = read_teacher(given.path)
    assert [value for _, value, *_ in events.metrics] == [1.0]
    assert list(of_question["q001"]) == ["p001", "p011"]
    assert list(of_question["q002"]) == ["p002", "p008", "p011"]


def test_the_accuracy_of_a_teacher():
    known = [["p"], ["p", "r"], ["p"], ["p"]]
    lists = [["p", "n"], ["p", "r", "n"], ["n", "m"], ["p"]]
    logits = np.array([[1, 2, 0], [1, 9, 0], [5, 4, 0], [1, 0, 0]])
    assert teacher_accuracy(known, lists, logits) == 0.5, "of two: one has no positive, and one nothing else"
    assert teacher_accuracy(known[2:], lists[2:], logits[2:]) is None


def test_examples_have_the_logits_of_their_own_lists(judge, data, tmp_path):
    negatives, _ = taught(judge, data, tmp_path / "taught")
    plainly = Config(train=Train(batch_size=3, epochs=4, negatives=2))
    context = StepContext(plainly, {**data, "negatives": negatives}, {}, RecordedEvents())
    plain = training_data(context, tmp_path).stream
    taught_too = Config(train=plainly.train.model_copy(update={"distill_weight": 1.0}))
    stream = training_data(replace(context, settings=taught_too), tmp_path).stream
    logits = read_teacher(negatives.path)
    for item in range(len(stream)):
        example = stream[item]
        ids = [example.positive, *example.negatives]
        assert example.teacher == tuple(logits[example.question.qid][id_] for id_ in ids)
        assert len(ids) == 3 and all(map(math.isfinite, example.teacher))
    drawn, plainly_drawn = (
        [(each[i].positive, each[i].negatives) for i in range(24)] for each in (stream, plain)
    )
    assert drawn == plainly_drawn, "a teacher changes nothing of what is drawn"
    assert not plain[0].teacher


def test_a_model_comes_nearer_to_its_teacher_without_the_teacher_being_there(
    judge, data, base, tmp_path, monkeypatch
):
    negatives, _ = taught(judge, data, tmp_path / "taught")
    start = training_material.saved_model(tmp_path / "start", base)

    def never(*_, **__):
        raise AssertionError("training loads no second model")

    monkeypatch.setattr("multiview.encoding.cross_encoder.CrossEncoder.__init__", never)
    monkeypatch.setattr("multiview.training.trainer.LOG_STEPS", 1)
    rates = {"dropout": 0.0, "learning_rate": 1e-3, "warmup_steps": 0}
    settings = Train(batch_size=6, epochs=30, negatives=2, distill_weight=10.0, **rates)
    chosen = Config.partial({"train": settings, "questions": Questions(), "corpus": Corpus()})
    inputs, events = {"start": start, **data, "negatives": negatives}, RecordedEvents()
    train(StepContext(chosen, inputs, {"model": tmp_path / "model"}, events))
    losses, contrastive, divergences = (
        [value for each, value, _ in events.metrics if each == name]
        for name in ("loss", "contrastive_loss", "distill_loss")
    )
    for loss, plain, divergence in zip(losses, contrastive, divergences, strict=True):
        assert loss == pytest.approx(plain + 10 * divergence, rel=1e-3, abs=1e-4)
    assert np.mean(divergences[-3:]) < 0.3 * divergences[0]


def test_negatives_that_no_teacher_scored_are_refused(data, tmp_path):
    context = StepContext(Config(train=Train(distill_weight=1.0)), data, {}, RecordedEvents())
    with pytest.raises(InputError, match=r"^train\.distill_weight: .* holds no logits of a cross-encoder"):
        training_data(context, tmp_path)
    without = replace(context, inputs={k: v for k, v in data.items() if k != "negatives"})
    with pytest.raises(InputError, match=r"^train\.distill_weight: without negatives"):
        training_data(without, tmp_path)


def test_the_key_holds_the_teacher(judge):
    config = Config.partial({"mining": Mining(cross_encoder=str(judge))})
    assert teacher_fingerprint(config) == cross_encoder_fingerprint(config) != {}
    with pytest.raises(InputError, match=r"^mining\.cross_encoder: distillation needs"):
        teacher_fingerprint(Config.partial({"mining": Mining()}))
