"""How large a run is as an object of Argo's, which has room for 1 MB."""

import json

import pytest
import yaml

from multiview.plans.request import Request
from pipelines.kubeflow.checks import STATUS_SIZE, estimate_size, warn_of_size
from pipelines.kubeflow.submission import package
from tests.fixtures.compiled import all_tasks, dags


def compared(systems: int, shards: int) -> Request:
    """A comparison of systems with two rounds each, and so two loops over the shards."""
    seeds = {f"camvr-{seed}": {"train": {"rounds": 2, "seed": seed}} for seed in range(systems)}
    settings = {"corpus": {"shards": shards}, "comparison": {"systems": seeds}}
    return Request.make("comparison", {**settings, "model": {"architecture": "camvr"}})


@pytest.mark.parametrize(
    ("systems", "shards", "warned"),
    [(1, 1, False), (8, 1, False), (12, 1, True), (2, 60, False), (2, 100, True)],
)
def test_a_run_that_argo_may_have_no_room_for_is_warned_of(capsys, systems, shards, warned):
    request = compared(systems, shards)
    warn_of_size(package(request).text, request.plan)
    printed = capsys.readouterr().err
    assert printed.startswith("warning: Argo keeps a run in 1 MB, and this one may need ") == warned
    assert warned or not printed


def as_text(value: object) -> int:
    """The length of JSON as a string of another JSON."""
    return len(json.dumps(json.dumps(value, separators=(",", ":"))))


@pytest.mark.parametrize("systems", [1, 6])
def test_the_estimate_has_room_for_what_kfp_s_compiler_writes(systems):
    """Each DAG, each of its tasks once more, a loop's a third time, a component per source of a step, the platform; and
    per task, some 1.4 kB of templates' words."""
    request = compared(systems, 1)
    text = package(request).text
    ir, platform = yaml.safe_load_all(text)
    tasks = list(all_tasks(ir).values())
    loops = [task for task in tasks if "parameterIterator" in task]
    containers = {str(each): each for each in ir["deploymentSpec"]["executors"].values()}
    written = [*dags(ir), *tasks, *loops, *containers.values(), platform]
    known = sum(map(as_text, written)) + 1_400 * len(tasks)
    estimated = estimate_size(text, request.plan) - STATUS_SIZE * len(request.plan.nodes)
    assert known < estimated < 1.15 * known + 25_000
