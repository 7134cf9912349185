"""A user's own architecture (docs/architectures.md) works from training to search without other changes."""

import json
from pathlib import Path

import numpy as np
import pytest

import multiview
from multiview.artifacts.store import LocalStore
from multiview.config.overrides import gather
from multiview.data.questions import read_questions
from multiview.model.layouts import LAYOUTS
from multiview.plans.system import training
from tests.fixtures.halves import Halves
from tests.fixtures.inprocess import run_plan
from tests.fixtures.project import ROOT, Project


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("halves")
    project = Project.make(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(LAYOUTS, Halves.name, Halves)
        settings = ["model.architecture=halves", "train.rounds=1", "train.max_steps=4"]
        plan = training(gather(str(project.folder / "tiny.yaml"), settings))
        store = LocalStore(folder / "store")
        yield store, run_plan(plan, store)


def test_it_trains_on_the_answer_s_half_and_is_indexed_with_one_view_a_half(made):
    store, records = made
    train = next(record for record in records["halves/round-1/train"].values())
    assert train.config["train"]["positive"] == "answer", "its own default"
    lines = (store.root / f"{train.data}.events.jsonl").read_text().splitlines()
    metrics = {
        event["name"]: event["value"] for event in map(json.loads, lines) if event["event"] == "metric"
    }
    assert metrics["fallback_share"] < 1 and 0 < metrics["view_2_wins"] < 1
    index = records["halves/round-1/index"]["index"]
    assert index.facts["passages"] < index.facts["views"] <= 2 * index.facts["passages"]


def test_it_is_evaluated(made):
    store, records = made
    record = records["halves/round-1/evaluate"]["evaluation"]
    metrics = json.loads((store.root / record.data / "metrics.json").read_text())
    assert metrics["accuracy_at_20"] > 0


def test_a_search_marks_the_half_that_matched(made):
    store, records = made
    retriever = multiview.load(f"{store.url}/{records['halves/round-1/index']['index'].folder}")
    questions = read_questions(store.root / records["split"]["dev_questions"].data)
    found = retriever.search([question.question for question in questions], k=20, explain=True)
    for hit in (hit for hits in found for hit in hits):
        assert "".join(view.snippet or "" for view in hit.views) == hit.text
        assert hit.best.number == 1 + int(np.argmax([view.score for view in hit.views]))
        assert hit.snippet == hit.views[hit.best.number - 1].snippet
    assert {hit.best.number for hits in found for hit in hits} == {1, 2}


def test_the_document_shows_this_very_layout():
    document = (ROOT / "docs" / "architectures.md").read_text(encoding="utf-8")
    block = document.split("```python\n")[1].split("```")[0]
    assert block == Path(ROOT / "tests" / "fixtures" / "halves.py").read_text(encoding="utf-8")
