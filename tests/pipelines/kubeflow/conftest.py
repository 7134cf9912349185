"""A Kubeflow to speak to, a bucket that its pods would reach, and the commands as a user gives them."""

import logging
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml
from safetensors.numpy import save_file

from multiview.cli.app import run_app
from pipelines.__main__ import app
from tests.fixtures.bucket import ENVIRONMENT, emulated_bucket, free_port
from tests.fixtures.kubeflow_server import FakeKubeflow, serving

os.environ.update(ENVIRONMENT)  # before anything imports gcsfs

Command = Callable[..., str]
LOCATION = "kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION"


@pytest.fixture
def kubeflow() -> Iterator[FakeKubeflow]:
    with serving(FakeKubeflow()) as server:
        yield server


@pytest.fixture(scope="session")
def bucket() -> Iterator[str]:
    """The URL of an emulated bucket, for this process too."""
    with emulated_bucket(free_port()) as environment, pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        yield "gs://bucket"


SMALL = """
questions: {source: demo://train.json, dev_source: demo://dev.json}
model: {base: package:small_base}
train: {max_steps: 2, rounds: 1}
"""


@pytest.fixture(autouse=True)
def no_bucket(request, monkeypatch):
    """Stores that cannot be read from here, for tests without the bucket, whose emulator may not run."""
    if "bucket" not in request.fixturenames:
        for module in ("submission", "start"):
            monkeypatch.setattr(f"pipelines.kubeflow.{module}.readable", lambda url: None)


@pytest.fixture(autouse=True)
def user(monkeypatch, tmp_path):
    """A user with the images' names in the environment, in a folder with a preset of their own.

    Its base is a package that holds a checkpoint of one weight: what is submitted here never runs.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "small_base").mkdir()
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / "small_base" / name).write_text("{}")
    save_file({"weight": np.zeros(1, np.float32)}, tmp_path / "small_base" / "model.safetensors")
    (tmp_path / "small.yaml").write_text(SMALL)
    for name in [name for name in os.environ if name.startswith(("KF_PIPELINES", "KFP_", "MULTIVIEW_"))]:
        monkeypatch.delenv(name)
    for name in ("MLFLOW_TRACKING_URI", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MULTIVIEW_CPU_IMAGE", f"registry.example/multiview-cpu@sha256:{1:064x}")
    monkeypatch.setenv("MULTIVIEW_GPU_IMAGE", f"registry.example/multiview-gpu@sha256:{2:064x}")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("kfp.Client._LOCAL_KFP_CONTEXT", str(tmp_path / "context.json"))
    logging.getLogger("urllib3").setLevel(logging.ERROR)


@pytest.fixture
def command(monkeypatch, capsys) -> Command:
    """Runs `python -m pipelines …`; what it prints on both streams, after checking its exit status."""

    def call(line: str, status: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["pipelines", *shlex.split(line)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            run_app(app)
        printed = capsys.readouterr()
        assert ended.value.code == status, printed
        if status == 2:
            assert printed.err.startswith("error: ") and printed.err.count("\n") == 1, printed
        return printed.out + printed.err

    return call


def kubeconfig(server: str, token: str) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "other",
            "clusters": [
                {"name": "ours", "cluster": {"server": server}},
                {"name": "other", "cluster": {"server": "http://127.0.0.1:9"}},
            ],
            "users": [{"name": "me", "user": {"token": token}}],
            "contexts": [
                {"name": "training-cluster", "context": {"cluster": "ours", "user": "me"}},
                {"name": "other", "context": {"cluster": "other", "user": "me"}},
            ],
        }
    )


@pytest.fixture
def kubernetes(kubeflow, monkeypatch) -> None:
    """A kubeconfig with a context of a Kubernetes API that passes requests on to Kubeflow."""
    kubeflow.token = "of-the-kubeconfig"
    kubeflow.below = "/api/v1/namespaces/kubeflow/services/ml-pipeline:http/proxy"
    Path("config").write_text(kubeconfig(kubeflow.url, kubeflow.token))
    monkeypatch.setattr(LOCATION, str(Path("config").absolute()))
