"""`run --dry-run` and `submit --dry-run`: the estimate of a request, of which nothing is started."""

from pathlib import Path

import pytest

from multiview.artifacts.store import LocalStore
from multiview.config.overrides import gather, validate
from multiview.estimates.rates import default_rates
from multiview.plans.request import Request
from multiview.steps.execution import run_step
from multiview.steps.reporter import StepReporter
from pipelines.runs.dry_run import estimate_lines, found_steps, pods, quantity, this_machine
from tests.fixtures.inprocess import command
from tests.fixtures.system_indexes import write_corpus
from tests.fixtures.tiny import tiny_bert


@pytest.fixture
def settings(tmp_path: Path) -> list[str]:
    passages, questions = write_corpus(tmp_path)
    return [
        f"corpus.source={passages}",
        f"questions.source={questions}",
        f"model.base={tiny_bert(tmp_path / 'base')}",
        "corpus.shards=3",
    ]


def test_a_dry_run_starts_nothing(settings, tmp_path, monkeypatch, capsys) -> None:
    options = [word for setting in settings for word in ("--set", setting)]
    store = tmp_path / "store"
    printed = command(monkeypatch, capsys, "run", "training", "--dry-run", "--store", str(store), *options)
    assert "| camvr/round-1/encode | 3, 1 at once |" in printed
    assert not store.exists()


def test_steps_that_the_store_has_are_found(settings, tmp_path) -> None:
    request, store = Request.make("training", gather(None, settings)), LocalStore(tmp_path / "store")
    assert not found_steps(request, store)
    node = request.plan.node("split")
    run_step(node.step, StepReporter(store, "run", "split", "split"), node.config, {})
    assert found_steps(request, store) == {node.path}
    lines = [*estimate_lines(request, store, this_machine(default_rates()))]
    (line,) = (line for line in lines if line.startswith("| split |"))
    assert line == "| split |  | found |  |  |  |  |  |"


def test_pods_are_those_of_the_settings() -> None:
    settings = validate(
        {"kubeflow": {"gpu": {"cpu": "3500m", "memory": "10G"}, "steps": {"train": {"gpus": 4, "nodes": 2}}}}
    )
    hardware = pods(settings.kubeflow, default_rates())
    assert (hardware.gpus, hardware.cores, hardware.memory) == (8, 4, 1e10)


@pytest.mark.parametrize(
    ("text", "number"), [("2", 2), ("500m", 0.5), ("1.5Gi", 1.5 * 2**30), ("3T", 3e12), ("7Ki", 7168)]
)
def test_quantities_are_kubernetes_ones(text: str, number: float) -> None:
    assert quantity(text) == number
