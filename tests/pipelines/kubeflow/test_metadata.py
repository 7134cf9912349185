"""KFP's metadata store, ML-metadata's own core, takes the executions that our pipelines make, reruns included.

The core of the package `ml-metadata`, with an environment of its own: it holds protobuf back. Its wheels end at Python
3.11 and begin there at 1.15; KFP 2.14 to 2.17 deploy 1.14, whose rule on events is the same.
"""

import copy
import json
import subprocess
import sys
import venv
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from multiview.plans import PIPELINES
from multiview.plans.request import Request
from multiview.steps.runs import Run, StepState
from multiview.tracking import TrackedRun
from pipelines.kubeflow.compile import compile_request
from pipelines.kubeflow.versions import VERSIONS
from pipelines.runs.rerun import cut
from tests.fixtures import metadata_core
from tests.fixtures.compiled import (
    MADE,
    all_tasks,
    artifact,
    dags,
    default_documents,
    documents,
    gate_of_one_evaluation,
    made_documents,
    tasks_of,
)

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.skipif(sys.version_info >= (3, 12), reason="ml-metadata has no wheels from Python 3.12 on"),
]
PACKAGE = "ml-metadata==1.17.1"
REFUSED = "Given event already exists: artifact_id"
RERUNS = {
    "training": ("camvr/round-2/evaluate", "camvr/round-2/index"),
    "comparison": ("camvr/round-2/evaluate", "compare"),
    "refresh": ("challenger/evaluate", "gate"),
}

Ir = dict[str, Any]
Replay = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def replay(tmp_path_factory) -> Replay:
    """Runs pipelines one after the other into one store."""
    home = tmp_path_factory.mktemp("ml-metadata")
    venv.create(home, symlinks=True, with_pip=True)
    python = str(home / "bin" / "python")
    install = ["-m", "pip", "-qq", "--disable-pip-version-check", "install", "--only-binary=:all:", PACKAGE]
    subprocess.run([python, *install], check=True)

    def call(pipelines: list[Ir], version: str = "2.17") -> dict[str, Any]:
        command = [python, "-I", metadata_core.__file__, version]
        done = subprocess.run(command, input=json.dumps([pipelines]), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        (result,) = json.loads(done.stdout)
        return result

    return call


def pods(ir: Ir) -> Counter[str]:
    """How many pods each task of a pipeline has: one, in a loop one for each item."""
    counts = dict.fromkeys(tasks_of(ir), 1)
    for task in [task for dag in dags(ir) for task in dag["tasks"].values() if "parameterIterator" in task]:
        items = json.loads(task["parameterIterator"]["items"]["raw"])
        counts |= dict.fromkeys(ir["components"][task["componentRef"]["name"]]["dag"]["tasks"], len(items))
    return Counter(counts)


def rerun(name: str, step: str, folder: Path, downstream: bool) -> Ir:
    """A rerun of a run whose artifacts of a kind are all one, as where a refresh finds nothing new."""
    plan = PIPELINES[name]({})
    steps = {
        str(path): StepState(
            path=str(path),
            step=path.step,
            status="done",
            outputs={kind: artifact(kind) for kind in (*node.step.outputs, *node.step.forwards)},
        )
        for node in plan.nodes.values()
        for path in node.paths()
    }
    run = Run(id=f"{name}-0", pipeline=name, config={})
    request = cut(TrackedRun("0", "gs://bucket/store", run, steps), step, {}, downstream)
    ir, _ = documents(compile_request(request, folder / f"{name}-{step.replace('/', '-')}.yaml"))
    return ir


@pytest.mark.parametrize("version", VERSIONS)
def test_runs_and_reruns_are_taken(replay, tmp_path, version):
    whole = {name: default_documents(name)[0] for name in PIPELINES}
    whole |= {made: made_documents(made)[0] for made in MADE}
    parts = [
        rerun(name, step, tmp_path, downstream)
        for name, steps in RERUNS.items()
        for step in steps
        for downstream in (False, True)
    ]
    parts.append(documents(compile_request(Request(gate_of_one_evaluation(), {}), tmp_path / "gate.yaml"))[0])
    runs = [*whole.values(), *parts, *whole.values()]
    assert replay(runs, version) == {"refused": None, "tasks": sum((pods(ir) for ir in runs), Counter())}


def test_a_loop_with_a_title_of_its_own_is_not_found_before_2_16(replay):
    """Which is why loops have none (test_pods.py)."""
    ir, _ = default_documents("training")
    loops = {name: task for name, task in all_tasks(ir).items() if "parameterIterator" in task}
    for task in loops.values():
        task["taskInfo"]["name"] = "all shards"
    for version in ("2.14", "2.15"):
        refused = replay([ir], version)["refused"]
        assert refused in [f"producer task, {name}, not in tasks" for name in loops]
    assert replay([ir], "2.16")["refused"] is None


def test_one_artifact_as_two_inputs_is_refused(replay):
    ir, _ = default_documents("refresh")
    altered = copy.deepcopy(ir)
    artifacts = tasks_of(altered)["gate"]["inputs"]["artifacts"]
    artifacts["champion_evaluation"] = artifacts["challenger_evaluation"]
    assert replay([ir])["refused"] is None
    assert REFUSED in replay([altered])["refused"]
