"""`run --dry-run` and `submit --dry-run`: the estimate of a request, of which nothing is started."""

from pathlib import Path

import pytest

from multiview.artifacts.store import LocalStore
from multiview.config.overrides import gather, validate
from multiview.estimates.rates import default_rates
from multiview.estimates.workload import Hardware
from multiview.plans.request import Request
from multiview.steps.execution import run_step
from multiview.steps.reporter import StepReporter
from multiview.steps.table import STEPS
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
        {
            "kubeflow": {
                "gpu": {"cpu": "3500m", "memory": "10G"},
                "cpu": {"parallel_shards": 7},
                "steps": {"train": {"gpus": 4, "nodes": 2}},
            }
        }
    )
    hardware = pods(settings.kubeflow, default_rates())
    assert set(hardware) == set(STEPS)
    assert hardware["train"] == Hardware(8, "h100", 4, 1e10, at_once=100, nodes=2)
    assert hardware["encode"] == Hardware(1, "h100", 4, 1e10, at_once=100)
    assert hardware["split"] == Hardware(0, "h100", 2, 8 * 2**30, at_once=7)


def test_a_pod_s_gpu_is_the_one_that_its_nodes_are_named_after() -> None:
    settings = validate(
        {
            "kubeflow": {
                "gpu": {"node_selector": {"cloud.google.com/gke-accelerator": "nvidia-l4"}},
                "steps": {
                    "train": {
                        "node_selector": {},
                        "node_affinity": [
                            {"key": "gpu", "operator": "NotIn", "values": ["nvidia-l4"]},
                            {"key": "gpu", "values": ["NVIDIA-A100-SXM4-80GB"]},
                        ],
                    },
                    "mine": {"node_selector": {"gpu": "nvidia-l40s"}},
                },
            }
        }
    )
    hardware = pods(settings.kubeflow, default_rates())
    assert [hardware[step].gpu for step in ("encode", "train", "mine")] == ["l4", "a100", "h100"]


def test_a_dry_run_counts_each_step_with_its_own_pod(settings, tmp_path) -> None:
    request, store = Request.make("training", gather(None, settings)), LocalStore(tmp_path / "store")
    chosen = {"cpu": {"cpu": 4, "memory": "300M"}, "steps": {"index": {"memory": "1T"}}}
    hardware = pods(validate({"kubeflow": chosen}).kubeflow, default_rates())
    lines = [*estimate_lines(request, store, hardware)]
    assert lines[1].startswith("1 × NVIDIA H100 SXM, pods of 4 cores and 300 MB to 1 TB; times of GPUs are")
    marked = [line.split(" | ")[0].strip("| ") for line in lines if "too much" in line]
    assert marked == ["split", "bm25-negatives", "camvr/initial-model"]


@pytest.mark.parametrize(
    ("text", "number"), [("2", 2), ("500m", 0.5), ("1.5Gi", 1.5 * 2**30), ("3T", 3e12), ("7Ki", 7168)]
)
def test_quantities_are_kubernetes_ones(text: str, number: float) -> None:
    assert quantity(text) == number
