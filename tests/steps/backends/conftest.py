"""A cluster for trainings on several nodes."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from multiview.steps.backends import trainjob
from tests.fixtures.cluster import Cluster, step_pod


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is the pod `train-2` of the workflow `training-w`."""
    (tmp_path / "namespace").write_text("team")
    monkeypatch.setattr(trainjob, "NAMESPACE_FILE", tmp_path / "namespace")
    monkeypatch.setattr(trainjob, "POLL_SECONDS", 0.05)
    monkeypatch.setenv("KFP_POD_NAME", "train-2")  # as KFP's compiler of workflows names them
    monkeypatch.setenv("KFP_POD_UID", "uid-2")


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Cluster]]:
    """Makes a cluster whose pods run a piece of Python."""
    made: list[Cluster] = []

    def make(code: str = "pass") -> Cluster:
        cluster = Cluster(tmp_path, [sys.executable, "-c", code])
        cluster.steps["train-2"] = step_pod("train-2", "training-w")
        path = str(cluster.kubeconfig())
        monkeypatch.setenv("KUBECONFIG", path)
        monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", path)
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        made.append(cluster)
        return cluster

    yield make
    for started in made:
        started.close()
