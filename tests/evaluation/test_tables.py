"""Marks of generated questions over a run of real steps: below tables, in records and in MLflow."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from mlflow import MlflowClient

from multiview import names, tracking
from multiview.artifacts.record import load_record
from multiview.artifacts.staging import stage
from multiview.artifacts.store import LocalStore
from multiview.config.overrides import gather, merge
from multiview.data.questions import GENERATED
from multiview.evaluation.tables import (
    asked_legend,
    count_generated,
    generated_training,
    markdown_table,
    trained_legend,
)
from tests.fixtures.inprocess import command
from tests.fixtures.project import Project
from tests.fixtures.unshipped import unshipped

__all__ = ["unshipped"]

pytestmark = pytest.mark.usefixtures("unshipped")

CHANGES = {"questions": {"limit": 16}, "train": {"rounds": 1, "max_steps": 1}, "evaluation": {"analyses": []}}
UNLABELLED = {"questions": {"origin": "crop", "source": [], "dev_source": []}}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.make(tmp_path)


def trained(project: Project, monkeypatch, capsys, changes: dict) -> str:
    """What a training prints, after changes of the project's settings."""
    preset = project.folder / "tiny.yaml"
    preset.write_text(yaml.safe_dump(merge(gather(str(preset), []), CHANGES, changes)))
    return command(monkeypatch, capsys, *project.command("run", "training")[3:])


def mlflow_tags(project: Project) -> dict[str, dict[str, str]]:
    """The tags of generated questions by step, by `pipeline` and by `system`."""
    (run,) = project.runs()
    tracking.ship(LocalStore(Path(project.store)), run, project.tracking)
    client = MlflowClient(project.tracking)
    (experiment,) = [e for e in client.search_experiments() if e.name == names.EXPERIMENT]
    marks = ("train_questions", "dev_questions")
    return {
        tags.get(names.TAG_PATH) or tags[names.TAG_LEVEL]: {tag: tags[tag] for tag in marks if tag in tags}
        for tags in (shown.data.tags for shown in client.search_runs([experiment.experiment_id]))
    }


def test_a_run_without_labels_is_marked_wherever_it_is_shown(project, monkeypatch, capsys):
    printed = " ".join(trained(project, monkeypatch, capsys, UNLABELLED).split())
    assert "measured on generated questions: each was made from a snippet of the corpus" in printed
    assert "training questions were generated from the corpus: camvr (crop)" in printed
    (run,) = project.runs()
    states = project.states(run)
    evaluation = load_record(states["camvr/round-1/evaluate"].outputs[names.EVALUATION].address)
    generated, questions = count_generated(stage(*evaluation).path)
    assert generated == questions > 0 and generated_training(evaluation) == "crop"
    lines = (stage(*evaluation).path / "run.trec").read_text().splitlines()
    assert all(line.startswith(GENERATED) for line in lines)
    train, dev = {"train_questions": "generated: crop"}, {"dev_questions": "generated: crop"}
    tags = mlflow_tags(project)
    assert tags["pipeline"] == tags["system"] == tags["make-questions"] == train | dev
    assert tags["camvr/round-1/train"] == tags["bm25-negatives"] == train
    assert tags["camvr/round-1/evaluate"] == train | dev
    assert tags["split"] == tags["camvr/round-1/index"] == {}


def test_only_the_training_is_marked_where_dev_questions_are_labelled(project, monkeypatch, capsys):
    printed = trained(project, monkeypatch, capsys, {"questions": {"origin": "crop"}})
    assert "measured on generated" not in printed
    assert "training questions were generated from the corpus: camvr (crop)" in " ".join(printed.split())
    tags = mlflow_tags(project)
    assert tags["pipeline"] == tags["system"] == {"train_questions": "generated: crop"}


def test_a_row_that_was_not_trained_learned_from_no_questions(project, monkeypatch, capsys):
    printed = trained(project, monkeypatch, capsys, {"questions": {"origin": "crop"}, "train": {"rounds": 0}})
    assert "training questions were generated" not in printed


def test_legends_of_what_is_labelled_or_gone_are_empty(tmp_path: Path):
    assert asked_legend(0, 7) == trained_legend({}) == ""
    assert trained_legend({"camvr": f"{tmp_path}/evaluation/gone"}) == ""
    assert asked_legend(3, 7).startswith("measured on 3 generated questions of 7: ")


def test_the_best_value_is_bold_only_where_another_row_differs():
    alone = markdown_table({"mvr": {"mrr_at_10": 0.5}})
    alike = markdown_table({"mvr": {"mrr_at_10": 0.5}, "camvr": {"mrr_at_10": 0.5}})
    differing = markdown_table({"mvr": {"mrr_at_10": 0.5}, "camvr": {"mrr_at_10": 0.25}})
    assert "**" not in alone + alike and "**50.0**" in differing
