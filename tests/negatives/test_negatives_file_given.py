"""Negatives that come with the questions, alone and beside BM25's."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from multiview.artifacts.staging import LocalArtifact
from multiview.artifacts.store import LocalStore
from multiview.config import Config, Train
from multiview.config.overrides import gather
from multiview.data.questions import Question, write_questions
from multiview.data.reading.formats import FORMATS
from multiview.negatives.bm25 import bm25_negatives
from multiview.negatives.negatives_file import given_negatives, read_negatives, read_table
from multiview.plans.plan import Output
from multiview.plans.system import training
from multiview.steps.context import StepContext
from multiview.steps.path import StepPath
from multiview.training.data import training_data
from multiview.training.example_order import QuestionStream
from tests.fixtures import training_material
from tests.fixtures.events import RecordedEvents
from tests.fixtures.inprocess import run_plan
from tests.fixtures.project import Project
from tests.fixtures.retrieval_run import SETTINGS

QUESTIONS = [
    Question("q0", "Who?", ("a",), None, ("p000",), None, ("p002", "p000", "p001")),
    Question("q1", "Where?", ("b",), None, ("p001",)),
]


def test_given_negatives_keep_their_order_and_leave_out_positives(tmp_path):
    write_questions(QUESTIONS, tmp_path)
    events = RecordedEvents()
    inputs = {"questions": LocalArtifact(tmp_path, "questions")}
    (tmp_path / "out").mkdir()
    given_negatives(StepContext(Config(), inputs, {"negatives": tmp_path / "out"}, events))
    assert read_table(tmp_path / "out").to_pylist() == [
        {"qid": "q0", "source": "given", "negative_ids": ["p002", "p001"], "scores": [None, None]},
        {"qid": "q1", "source": "given", "negative_ids": [], "scores": []},
    ]
    assert events.facts == {"questions_without_given_negatives": 1}
    assert events.warnings == ["no given negative for 1 of 2 questions"]


def test_both_are_bm25_s_and_then_the_given_ones(retrieval, tmp_path):
    asked = [replace(question, negative_ids=("p59", "p58")) for question in retrieval.questions]
    write_questions(asked, tmp_path)
    questions = SETTINGS.questions.model_copy(update={"hard_negatives": "both"})
    both = SimpleNamespace(**vars(SETTINGS) | {"questions": questions})
    alone, _ = retrieval.run("negatives", bm25_negatives)
    out, _ = retrieval.run("negatives", bm25_negatives, both, questions=LocalArtifact(tmp_path, "questions"))
    assert read_negatives(out) == {
        question.qid: {
            **read_negatives(alone)[question.qid],
            "given": [id_ for id_ in question.negative_ids if id_ not in question.positive_ids],
        }
        for question in asked
    }


def test_training_draws_from_given_negatives_as_from_any_source(tmp_path):
    questions = QUESTIONS[:1]
    passages = [training_material.passage(i) for i in range(5)]
    inputs = training_material.training_inputs(tmp_path, passages, questions, {})
    given_negatives(StepContext(Config(), inputs, {"negatives": inputs["negatives"].path}, RecordedEvents()))
    events = RecordedEvents()
    found = training_data(StepContext(Config(train=Train(epochs=40)), inputs, {}, events), tmp_path)
    items = found.stream
    assert isinstance(items, QuestionStream)
    assert items.pool == {"q0": {"given": ["p002", "p001"]}}
    assert set(found.passages) == {"p000", "p001", "p002"}
    assert {items[i].negatives for i in range(len(items))} == {("p001",), ("p002",)}
    assert events.facts["questions_with_given_negatives"] == 1


@pytest.mark.parametrize(
    ("wanted", "step"), [("bm25", "bm25-negatives"), ("both", "bm25-negatives"), ("given", "given-negatives")]
)
def test_a_plan_has_the_step_that_writes_the_wanted_negatives(wanted, step):
    plan = training({"questions": {"hard_negatives": wanted}})
    steps = [str(path) for path in plan.nodes]
    assert steps[1] == step and ("bm25-negatives" in steps) == (step == "bm25-negatives")
    for path, name in (("round-1/train", "negatives"), ("round-2/mine", "bm25_negatives")):
        (source,) = plan.nodes[StepPath.parse(f"camvr/{path}")].inputs[name]
        assert isinstance(source, Output) and str(source.path) == step


def test_two_rounds_train_on_a_dpr_file_s_own_negatives(tmp_path):
    """The whole training, on a file that also brings its passages: mined negatives are added to those of round one."""
    project = Project.make(tmp_path)
    overrides = gather(str(project.folder / "tiny.yaml"), ["train.max_steps=2", "evaluation.analyses=[]"])
    squad = FORMATS["squad"]
    assert squad.questions and squad.passages
    asked = list(squad.questions(overrides["questions"]["source"]))
    tables = squad.passages(overrides["questions"]["source"])
    texts = {row["id"]: row for table in tables for row in table.to_pylist()}
    ids = list(texts)

    def contexts(*names: str) -> list[dict[str, str]]:
        return [{"psg_id": id_, "title": texts[id_]["title"], "text": texts[id_]["text"]} for id_ in names]

    rows = [
        {
            "question": row["question"],
            "answers": row["answers"],
            "positive_ctxs": contexts(row["positive_ids"]),
            "hard_negative_ctxs": contexts(*(id_ for id_ in ids[:4] if id_ != row["positive_ids"])),
        }
        for row in asked
    ]
    (tmp_path / "biencoder.json").write_text(json.dumps(rows))
    source = str(tmp_path / "biencoder.json")
    overrides["questions"] |= {"source": source, "hard_negatives": "given"}
    overrides["corpus"]["source"] = [source, overrides["corpus"]["source"][1]]
    store = LocalStore(tmp_path / "store")
    records = run_plan(training(overrides), store)
    pool = read_negatives(store.root / records["camvr/round-2/mine"]["negatives"].data)
    assert pool and all(list(found) == ["given", "mined"] for found in pool.values())
    assert all(set(found["given"]) <= set(ids[:4]) for found in pool.values())
    assert any(found["given"] for found in pool.values()) and any(found["mined"] for found in pool.values())
