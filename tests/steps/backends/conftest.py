"""A cluster for trainings on several nodes."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fixtures.cluster import Cluster


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Cluster]]:
    """Makes a cluster whose pods run a piece of Python."""
    made: list[Cluster] = []

    def make(code: str = "pass") -> Cluster:
        cluster = Cluster(tmp_path, [sys.executable, "-c", code])
        path = str(cluster.kubeconfig())
        monkeypatch.setenv("KUBECONFIG", path)
        monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", path)
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        made.append(cluster)
        return cluster

    yield make
    for started in made:
        started.close()
