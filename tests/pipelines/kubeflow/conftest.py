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
from multiview.plans.request import Request
from pipelines.__main__ import app
from pipelines.kubeflow import compile as compiling
from pipelines.kubeflow import follow
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


@pytest.fixture
def store(bucket, tmp_path) -> str:
    return f"{bucket}/{tmp_path.name}"


SMALL = """
questions: {source: demo://train.json, dev_source: demo://dev.json}
model: {base: package:small_base}
train: {max_steps: 2, rounds: 1}
"""


def write_small(folder: Path) -> None:
    """The preset, and the package of its base, in a folder that modules are imported from."""
    (folder / "small_base").mkdir()
    for name in ("config.json", "tokenizer.json"):
        (folder / "small_base" / name).write_text("{}")
    save_file({"weight": np.zeros(1, np.float32)}, folder / "small_base" / "model.safetensors")
    (folder / "small.yaml").write_text(SMALL)


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
    write_small(tmp_path)
    for name in [name for name in os.environ if name.startswith(("KF_PIPELINES", "KFP_", "MULTIVIEW_"))]:
        monkeypatch.delenv(name)
    for name in ("MLFLOW_TRACKING_URI", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MULTIVIEW_CPU_IMAGE", f"registry.example/multiview-cpu@sha256:{1:064x}")
    monkeypatch.setenv("MULTIVIEW_GPU_IMAGE", f"registry.example/multiview-gpu@sha256:{2:064x}")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("kfp.Client._LOCAL_KFP_CONTEXT", str(tmp_path / "context.json"))
    logging.getLogger("urllib3").setLevel(logging.ERROR)


@pytest.fixture(scope="session")
def compiled_once() -> Callable[..., Path]:
    """`compile_request`, which takes KFP a second, once for all submissions of a request: their stores differ, of which
    a pipeline has the address as the default of a parameter."""
    texts: dict[str, str] = {}
    make, anywhere = compiling.compile_request, "gs://any-bucket/any-store"

    def remembered(request: Request, target: Path, store: str | None = None) -> Path:
        whole = repr((request, bool(store)))
        if whole not in texts:
            texts[whole] = make(request, target, store and anywhere).read_text()
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(texts[whole].replace(anywhere, store or ""))
        return target

    return remembered


@pytest.fixture
def command(monkeypatch, capsys, compiled_once) -> Command:
    """Runs `python -m pipelines …`; what it prints on both streams, after checking its exit status."""
    monkeypatch.setattr(compiling, "compile_request", compiled_once)

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


@pytest.fixture
def unreadable(monkeypatch) -> None:
    """A store that whoever follows a run cannot read."""
    monkeypatch.setattr(follow, "readable", lambda store: None)


@pytest.fixture
def quick(monkeypatch) -> None:
    """Runs are looked at often, and leave no evaluation to show a question of: their steps have only said that they are done."""
    monkeypatch.setattr(follow, "POLL_SECONDS", 0.2)
    monkeypatch.setattr(follow, "FOLLOWING_RETRY", follow.FOLLOWING_RETRY.new(backoff_factor=0))
    monkeypatch.setattr("pipelines.runs.results._show_example", lambda console, evaluation: None)


@pytest.fixture
def followed(kubeflow, command, store, quick) -> Command:
    """Submits a run and follows it; what is printed. The first word is what happens when Kubeflow is asked for the run."""

    def call(on_run: Callable[..., None], options: str = "", status: int = 0) -> str:
        kubeflow.on_run = on_run
        line = "submit training --preset small.yaml --wait"
        return command(f"{line} --host {kubeflow.url} --store {store} {options}", status)

    return call


@pytest.fixture
def submit(kubeflow, command) -> Command:
    """Submits the small training into a store that is not read; what is printed."""

    def call(options: str = "", status: int = 0) -> str:
        line = "submit training --preset small.yaml --store gs://bucket/store"
        return command(f"{line} --host {kubeflow.url} {options}", status)

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
