"""`run --dry-run`: which steps the store has, of which nothing is started."""

from pathlib import Path

import pytest

from multiview.artifacts.store import LocalStore
from multiview.config.overrides import gather
from multiview.plans.request import Request
from multiview.steps.execution import run_step
from multiview.steps.work import StepReporter
from pipelines.runs.local import dry_run_lines
from tests.fixtures.inprocess import command
from tests.fixtures.system_indexes import write_corpus
from tests.fixtures.tiny import tiny_bert


@pytest.fixture
def settings(tmp_path: Path) -> list[str]:
    passages, questions = write_corpus(tmp_path)
    base = tiny_bert(tmp_path / "base")
    return [f"corpus.source={passages}", f"questions.source={questions}", f"model.base={base}"]


def test_a_dry_run_starts_nothing(settings, tmp_path, monkeypatch, capsys) -> None:
    options = [word for setting in settings for word in ("--set", setting)]
    store = tmp_path / "store"
    printed = command(monkeypatch, capsys, "run", "training", "--dry-run", "--store", str(store), *options)
    assert "  new    camvr/round-1/encode/shard-00" in printed
    assert not store.exists()


def test_steps_that_the_store_has_are_found(settings, tmp_path) -> None:
    request, store = Request.make("training", gather(None, settings)), LocalStore(tmp_path / "store")
    assert not any("found" in line for line in dry_run_lines(request.plan, store))
    node = request.plan.node("split")
    run_step(node.step, StepReporter(store, "run", "split", "split"), node.config, {})
    assert [line for line in dry_run_lines(request.plan, store) if "found" in line] == ["  found  split"]
