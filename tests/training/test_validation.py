"""Validation while a model trains: what it holds out and measures, what it hands on, and how it resumes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from multiview.artifacts.staging import LocalArtifact
from multiview.config import Config, Corpus, Questions, Train
from multiview.data.questions import Question, read_questions, write_questions
from multiview.errors import InputError
from multiview.model.encoder import BiEncoder
from multiview.steps.checkpoints import NO_CHECKPOINTS, Checkpoints
from multiview.steps.context import StepContext
from multiview.steps.events import SHOWN
from multiview.training.data import TrainingData, ValidationSet, pool_of, training_data
from multiview.training.example_order import QuestionStream
from multiview.training.train import train
from multiview.training.validation import Validation
from tests.fixtures import training_material
from tests.fixtures.checkpoints import KeptCheckpoints
from tests.fixtures.events import RecordedEvents
from tests.fixtures.trainings import material, start

__all__ = ["start"]

SETTINGS: dict[str, Any] = {
    "batch_size": 4,
    "max_steps": 10,
    "learning_rate": 3e-3,
    "warmup_steps": 1,
    "checkpoint_steps": 4,
    "positive": "answer",
    "dropout": 0.2,
    "validate_steps": 3,
    "validation_questions": 6,
    "validation_passages": 16,
}
STEPS = [0, 3, 6, 9, 10]
MRR = "validation_mrr_at_10"


@pytest.fixture(scope="module")
def data(start: LocalArtifact, tmp_path_factory: pytest.TempPathFactory) -> dict[str, LocalArtifact]:
    return {"start": start, **material(tmp_path_factory.mktemp("data"), asked=30)}


def prepared(
    inputs: dict[str, LocalArtifact], folder: Path, events: RecordedEvents | None = None, **options: Any
) -> tuple[TrainingData, ValidationSet]:
    """The data of a training, and what is held out of them."""
    settings = Config(train=Train.model_validate(SETTINGS | options))
    data = training_data(StepContext(settings, inputs, {}, events or RecordedEvents()), folder)
    assert data.held_out is not None
    return data, data.held_out


class Run:
    """One training, and what came of it."""

    def __init__(
        self,
        inputs: dict[str, LocalArtifact],
        output: Path,
        kept: Checkpoints = NO_CHECKPOINTS,
        **options: Any,
    ):
        self.events, self.output = RecordedEvents(), output
        chosen = {"train": Train(**SETTINGS | options), "questions": Questions(), "corpus": Corpus()}
        train(StepContext(Config.partial(chosen), inputs, {"model": output}, self.events, kept))

    def curve(self, name: str) -> dict[int | None, float]:
        return {step: value for metric, value, step in self.events.metrics if metric == name}

    def files(self) -> dict[str, bytes]:
        paths = (path for path in self.output.rglob("*") if path.is_file())
        return {str(path.relative_to(self.output)): path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def whole(data: dict[str, LocalArtifact], tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(data, tmp_path_factory.mktemp("whole") / "model")


def test_what_is_validated_is_not_trained_on(data: dict[str, LocalArtifact], tmp_path: Path) -> None:
    events = RecordedEvents()
    found, held_out = prepared(data, tmp_path, events)
    held = {question.qid for question in held_out.questions}
    gold = {id_ for question in held_out.questions for id_ in question.positive_ids}
    trained = [found.stream[item] for item in range(len(found.stream))]
    assert len(held) == 6 and gold <= set(held_out.pool)
    assert held.isdisjoint(example.question.qid for example in trained)
    assert gold.isdisjoint(example.positive for example in trained)
    about_gold = [q for q in read_questions(data["questions"].path) if q.positive_ids[0] in gold]
    assert events.facts["questions_about_validation_passages"] == len(about_gold) - 6
    assert found.stream.count == 30 - len(about_gold)
    assert events.facts["validation_questions"] == 6
    assert events.facts["validation_passages"] == len(held_out.pool) == 16


def test_figures_are_those_of_the_model_that_the_round_hands_on(
    whole: Run, data: dict[str, LocalArtifact], tmp_path: Path
) -> None:
    """Its MRR, mean rank, wins and cosine by plain formulas, on vectors of single passages and questions."""
    model, (found, held_out) = BiEncoder.load(whole.output), prepared(data, tmp_path)
    figures = Validation(model, held_out, found.passages, Train(**SETTINGS), torch.device("cpu")).figures()
    assert figures == pytest.approx(whole.events.facts["best_validation"], abs=1e-5)

    encode = Plain(model)
    views = {id_: encode.passage(found.passages[id_]) for id_ in held_out.pool}
    ranks, wins, firsts = [], np.zeros(4), []
    for question in held_out.questions:
        (gold,) = question.positive_ids
        query = encode.question(question.question)
        scores = {id_: max(query @ vector for vector in vectors.values()) for id_, vectors in views.items()}
        ranks.append(1 + sum(score > scores[gold] for score in scores.values()))
        firsts.append(ranks[-1] == 1)
        wins[max(views[gold], key=lambda view: query @ views[gold][view])] += 1 / 6
    assert figures["recall_at_1"] == pytest.approx(np.mean(firsts))
    assert figures["mrr_at_10"] == pytest.approx(np.mean([1 / rank if rank <= 10 else 0 for rank in ranks]))
    assert figures["average_rank"] == pytest.approx(np.mean(ranks))
    assert [figures[f"view_{view}_wins"] for view in range(1, 5)] == pytest.approx(list(wins))
    cosines = np.full((4, 4, len(views)), np.nan)
    for column, vectors in enumerate(views.values()):
        for i, one in vectors.items():
            for j, other in vectors.items():
                cosines[i, j, column] = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
    pairs = np.nanmean(cosines, axis=2)[~np.eye(4, dtype=bool)]
    assert figures["view_cosine"] == pytest.approx(pairs.mean(), abs=1e-4)


class Plain:
    """Vectors of one passage or question at a time, in float64, without batches."""

    def __init__(self, model: BiEncoder) -> None:
        self.model = model

    def passage(self, passage: Any) -> dict[int, np.ndarray]:
        (sequence,) = self.model.layout.passage(passage)
        vectors = self._vectors("passage", sequence)
        return {
            number: vector
            for number, (view, vector) in enumerate(zip(sequence.views, vectors, strict=True))
            if not view.padding
        }

    def question(self, question: str) -> np.ndarray:
        return self._vectors("question", self.model.layout.question(question))[0] * self.model.scale

    @torch.no_grad()
    def _vectors(self, part: str, sequence: Any) -> list[np.ndarray]:
        (hidden,) = (
            self.model.encoders[part](torch.tensor([sequence.input_ids])).last_hidden_state.double().numpy()
        )
        return [
            np.mean([hidden[start:stop].mean(axis=0) for start, stop in view.runs], axis=0)
            for view in sequence.views
        ]


def test_the_best_is_handed_on_and_of_equals_the_earliest(whole: Run) -> None:
    curve = whole.curve(MRR)
    assert list(curve) == STEPS
    candidates = {step: value for step, value in curve.items() if step}
    best = max(candidates, key=lambda step: (candidates[step], -step))
    assert whole.events.facts["best_step"] == best
    assert whole.events.facts["best_validation"]["mrr_at_10"] == candidates[best]
    assert "stopped_early_at" not in whole.events.facts


def test_training_does_not_notice_its_validation(
    whole: Run, data: dict[str, LocalArtifact], tmp_path: Path
) -> None:
    """The same questions without a validation give the same losses, dropout included."""
    found, _ = prepared(data, tmp_path)
    assert isinstance(found.stream, QuestionStream)
    (tmp_path / "questions").mkdir()
    write_questions(found.stream.questions, tmp_path / "questions")
    trained = {**data, "questions": LocalArtifact(tmp_path / "questions", "trained")}
    alone = Run(trained, tmp_path / "alone", validate_steps=None)
    assert alone.curve("loss") == whole.curve("loss")
    assert set(SHOWN) <= {name for name, _, _ in whole.events.metrics}, "what a step's log says of a training"
    assert not alone.curve(MRR) and "best_step" not in alone.events.facts
    last = Run(data, tmp_path / "last", validate_steps=10)
    assert last.files() == alone.files()


def test_patience_stops_and_a_resumed_run_stops_at_the_same_step(
    data: dict[str, LocalArtifact], tmp_path: Path
) -> None:
    # With steps as small as this nothing changes, so no validation is better than the first.
    options: dict[str, Any] = {"learning_rate": 1e-12, "patience": 2, "validate_steps": 2}
    stopped = Run(data, tmp_path / "stopped", **options)
    assert list(stopped.curve(MRR)) == [0, 2, 4, 6]
    assert stopped.events.facts["stopped_early_at"] == 6 and stopped.events.facts["best_step"] == 2
    assert stopped.events.steps[-1][0] == 6
    kept = KeptCheckpoints(tmp_path / "checkpoints", stop_after=4)
    with pytest.raises(KeyboardInterrupt):
        Run(data, tmp_path / "killed", kept, **options)
    kept.stop_after = None
    resumed = Run(data, tmp_path / "resumed", kept, **options)
    assert list(resumed.curve(MRR)) == [6] and resumed.files() == stopped.files()
    assert resumed.events.facts["stopped_early_at"] == 6


def test_a_model_that_training_only_harmed_is_handed_on_with_a_warning(
    data: dict[str, LocalArtifact], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = iter([0.9, 0.2, 0.3])
    monkeypatch.setattr(Validation, "figures", lambda self: {"mrr_at_10": next(figures)})
    run = Run(data, tmp_path / "out", max_steps=2, validate_steps=1)
    assert run.events.facts["best_step"] == 2
    assert any("MRR@10 0.300 after step 2, 0.900 before" in line for line in run.events.warnings)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_model_whose_vectors_are_nan_finds_nothing(
    whole: Run, data: dict[str, LocalArtifact], tmp_path: Path
) -> None:
    model, (found, held_out) = BiEncoder.load(whole.output), prepared(data, tmp_path)
    with torch.no_grad():
        next(model.parameters()).fill_(torch.nan)
    figures = Validation(model, held_out, found.passages, Train(**SETTINGS), torch.device("cpu")).figures()
    assert (figures["recall_at_1"], figures["mrr_at_10"]) == (0, 0)


def test_most_questions_are_left_to_train_on(data: dict[str, LocalArtifact], tmp_path: Path) -> None:
    _, held_out = prepared(data, tmp_path, events := RecordedEvents(), validation_questions=30)
    assert len(held_out.questions) == 6
    assert "train.validation_questions 30: only 6 of 30 questions held out" in events.warnings[0]


def test_questions_that_share_a_gold_passage_with_many_held_out_ones_are_counted(tmp_path: Path) -> None:
    passages = [training_material.passage(i) for i in range(30)]
    questions = [
        Question(f"q{i}", "?", ("x",), None, tuple(passages[(i + j) % 30].id for j in range(4)))
        for i in range(30)
    ]
    inputs = training_material.training_inputs(tmp_path, passages, questions, {})
    for asked, warned in ((1, False), (6, True)):
        _, held_out = prepared(inputs, tmp_path, events := RecordedEvents(), validation_questions=asked)
        shown = {id_ for ids in held_out.gold.values() for id_ in ids}
        neither = sum(not shown.isdisjoint(question.positive_ids) for question in questions) - asked
        assert events.facts["questions_about_validation_passages"] == neither and (neither > 6) == warned
        lines = [line for line in events.warnings if "share a gold passage with a held-out one" in line]
        assert lines == [] if not warned else f"{neither} of 30 questions" in lines[0]


def test_half_of_the_places_beside_gold_are_for_each_question_s_best_negatives() -> None:
    questions = [Question(qid, "?", ("x",), None, ()) for qid in "qr"]
    gold = {"q": ["gold"], "r": ["gold", "gold too"]}
    negatives = {"q": {"bm25": ["n1", "n2", "n3", "n4"]}, "r": {"bm25": ["m1", "gold", "m2"]}}
    pool = pool_of(questions, gold, negatives, [f"c{i}" for i in range(50)], Train(validation_passages=8))
    assert {"gold", "gold too", "n1", "m1", "n2"} == {id_ for id_ in pool if id_[0] != "c"} and len(pool) == 8


def test_no_text_is_validated_on_and_trained_on_under_two_ids(tmp_path: Path) -> None:
    passages = [training_material.passage(i) for i in range(20)]
    passages += [replace(passages[i], id=f"again-{i:02d}") for i in range(20)]
    questions = [Question(f"q{i}", "?", ("x",), None, (passages[i].id,)) for i in range(40)]
    inputs = training_material.training_inputs(tmp_path, passages, questions, {})
    text = {passage.id: (passage.title, passage.text) for passage in passages}
    for seed in range(5):
        data, held_out = prepared(inputs, tmp_path, negatives=0, seed=seed)
        assert isinstance(data.stream, QuestionStream)
        held = {text[id_] for ids in held_out.gold.values() for id_ in ids}
        trained = {text[id_] for ids in data.stream.positives for id_ in ids}
        assert held and trained and held.isdisjoint(trained)


def test_too_few_questions_are_refused(tmp_path: Path) -> None:
    (passage,) = passages = [training_material.passage(0)]
    for count in (2, 10):
        questions = [training_material.question(i, passage) for i in range(count)]
        inputs = training_material.training_inputs(tmp_path / f"{count}", passages, questions, {})
        line = rf"train\.validate_steps: too few .*questions: {count}, gold passages: 1"
        with pytest.raises(InputError, match=line):
            prepared(inputs, tmp_path)
