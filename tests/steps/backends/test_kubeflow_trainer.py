"""What a cluster has of Kubeflow Trainer is asked before a run does anything."""

from collections.abc import Callable

import pytest

from multiview.artifacts.store import LocalStore
from multiview.errors import InputError
from multiview.kubeflow.run import open_run
from multiview.steps.backends.kubeflow_trainer import check_trainer
from multiview.steps.runs import Run, read_start
from tests.fixtures.cluster import Cluster
from tests.fixtures.training_jobs import nodes

DESCRIBED = Run(id="training-1", pipeline="training", config={}, steps=["split"]).model_dump_json()


def test_a_cluster_with_a_trainer_of_today_is_taken_silently(cluster: Callable[..., Cluster], capsys) -> None:
    cluster()
    check_trainer()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("state", "line"),
    [
        ({"installed": False}, "install Kubeflow Trainer, or set nodes to 1"),
        ({"patches": False}, r"knows no runtimePatches.* install 2\.2 or later"),
    ],
)
@pytest.mark.parametrize("several", [True, False])
def test_a_run_that_needs_another_trainer_ends_in_its_first_pod(
    cluster: Callable[..., Cluster], tmp_path, monkeypatch, state, line, several
) -> None:
    here, store = cluster(), LocalStore(tmp_path / "store")
    vars(here).update(state)
    if not several:
        open_run(store.url, DESCRIBED, "aaaa")
        return
    monkeypatch.setenv("MULTIVIEW_NODES", nodes().model_dump_json())
    with pytest.raises(InputError, match=f"training on several nodes: .*{line}"):
        open_run(store.url, DESCRIBED, "aaaa")
    assert "Trainer" in (read_start(store, "aaaa").error or ""), "which the notice tells"
    assert not store.files("runs/training-1")


def test_a_cluster_that_does_not_say_is_a_warning(cluster: Callable[..., Cluster], capsys) -> None:
    cluster().refuse = 403
    check_trainer()
    assert "warning: the cluster does not say whether it has Kubeflow Trainer: 403" in capsys.readouterr().err
