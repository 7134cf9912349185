"""Tries at a step that trains on several nodes: the pod that each is in, and waiting for what becomes of their TrainJob."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from multiview.steps.backends import trainjob_api
from tests.fixtures.cluster import Cluster

OWNER = {"apiVersion": "v1", "kind": "Pod", "blockOwnerDeletion": False}


def until(cluster: Cluster, true: Callable[[], Any]) -> None:
    with cluster.changed:
        assert cluster.changed.wait_for(true, timeout=60)


def waiting(file: Path) -> str:
    """A pod's code that ends once a file is there."""
    return f"import os, time\nwhile not os.path.exists({str(file)!r}): time.sleep(0.05)"


def pod_here(monkeypatch: pytest.MonkeyPatch, folder: Path, namespace: str = "team") -> dict[str, Any]:
    """The owner that a pod of this name is, once this process is in it."""
    (folder / "namespace").write_text(namespace)
    monkeypatch.setattr(trainjob_api, "NAMESPACE_FILE", folder / "namespace")
    monkeypatch.setenv("KFP_POD_NAME", "train-2")  # as KFP's compiler of workflows names them
    monkeypatch.setenv("KFP_POD_UID", "uid-2")
    return {**OWNER, "name": "train-2", "uid": "uid-2"}
