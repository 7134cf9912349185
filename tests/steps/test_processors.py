"""The processors of a step: `OMP_NUM_THREADS`, the limit of its pod, its request, those of the node, in this order."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from multiview import environment
from multiview.steps import processors as module
from multiview.steps.processors import follow_pod, processors

NODE = 64
VERSION_1 = ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")


@pytest.fixture(autouse=True)
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the cgroups on a node with 64 processors, with nothing set in the environment."""
    monkeypatch.setattr(module, "CGROUPS", tmp_path)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(NODE)), raising=False)
    for variable in (environment.OMP_NUM_THREADS, environment.RAYON_NUM_THREADS, environment.PROCESSORS):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "cpu").mkdir()
    return tmp_path


def limited(folder: Path, quota: object, period: int = 100_000, version: int = 2) -> None:
    if version == 2:
        (folder / "cpu.max").write_text(f"{quota} {period}\n")
        return
    for name, number in zip(VERSION_1, (quota, period), strict=True):
        (folder / name).write_text(f"{number}\n")


def test_without_a_setting_they_are_all_that_the_process_may_use():
    assert processors() == NODE


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("quota", "period", "expected"),
    [(400_000, 10**5, 4), (150_000, 10**5, 2), (5_000, 10**5, 1), (25_000, 50_000, 1), (10**8, 10**5, NODE)],
)
def test_they_are_the_limit_of_the_pod(groups, monkeypatch, version, quota, period, expected):
    monkeypatch.setenv(environment.PROCESSORS, "3")
    limited(groups, quota, period, version)
    assert processors() == expected


@pytest.mark.parametrize("unlimited", ["max", "-1", "", "nonsense"])
def test_without_a_limit_they_are_what_the_pod_requests(groups, monkeypatch, unlimited):
    limited(groups, unlimited)
    limited(groups, -1, version=1)
    assert processors() == NODE
    monkeypatch.setenv(environment.PROCESSORS, "4")
    assert processors() == 4
    monkeypatch.setenv(environment.PROCESSORS, "0")  # Kubernetes' answer for a container that requests none
    assert processors() == NODE


@pytest.mark.parametrize(
    ("threads", "expected"), [("1", 1), ("8", 8), ("100000", NODE), ("", 4), ("0", 1), ("2,1", 4)]
)
def test_threads_decide_where_they_are_set(groups, monkeypatch, threads, expected):
    limited(groups, 400_000)
    monkeypatch.setenv(environment.OMP_NUM_THREADS, threads)
    assert processors() == expected


def test_libraries_follow_a_pod_and_nothing_else(groups, monkeypatch):
    follow_pod()
    assert environment.OMP_NUM_THREADS not in os.environ, (
        "each library has its own default on a machine of one's own"
    )
    limited(groups, 300_000)
    monkeypatch.setenv(environment.RAYON_NUM_THREADS, "2")
    follow_pod()
    assert os.environ[environment.OMP_NUM_THREADS] == "3" and os.environ[environment.RAYON_NUM_THREADS] == "2"
    monkeypatch.setenv(environment.OMP_NUM_THREADS, "5")
    follow_pod()
    assert os.environ[environment.OMP_NUM_THREADS] == "5"


PROGRAMS = {
    "a step's component": "from multiview.kubeflow.component import execute\ntry: execute('no step', '', '', '{}')\nexcept SystemExit: pass",
    "a node of a TrainJob": "from multiview.steps.backends.trainjob_node import main\nmain('nowhere', '', '')",
    "both command lines": "from multiview.cli.app import app, run_app\ntry: run_app(app)\nexcept SystemExit: pass",
}
BEFORE = """
import sys
from multiview.steps import processors
def noting(follow=processors.follow_pod):
    global loaded
    loaded = {"faiss", "numpy", "pyarrow", "torch"} & set(sys.modules)
    follow()
processors.follow_pod = noting
"""
AFTER = dict.fromkeys(PROGRAMS, "import os; print(loaded, os.environ['OMP_NUM_THREADS'])") | {
    "a step's component": "import faiss, numpy, pyarrow, torch\n"
    "print(loaded, torch.get_num_threads(), faiss.omp_get_max_threads(), pyarrow.cpu_count())"
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_runs_in_a_pod_follows_it_before_its_libraries_are_loaded(program, tmp_path):
    """And those then have the pod's processors."""
    code = f"{BEFORE}\n{PROGRAMS[program]}\n{AFTER[program]}"
    variables = {name: value for name, value in os.environ.items() if name != environment.OMP_NUM_THREADS}
    variables |= {environment.PROCESSORS: "1", environment.TERMINATION_LOG: str(tmp_path / "log")}
    ended = subprocess.run(
        [sys.executable, "-c", code], env=variables, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    found, *processors_ = ended.stdout.splitlines()[-1].split()
    assert found == "set()" and set(processors_) == {"1"}, ended.stderr
