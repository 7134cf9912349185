"""Artifacts from outside a plan: KFP's metadata store refuses one artifact as two inputs of one task."""

import pytest

from components import CPU_IMAGE
from multiview.config import Config
from multiview.plans import PIPELINES
from multiview.plans.plan import Plan
from multiview.plans.request import Request
from multiview.steps.path import StepPath
from pipelines.kubeflow.compile import compile_request
from tests.fixtures.compiled import (
    MADE,
    artifact,
    default_documents,
    documents,
    gate_of_one_evaluation,
    imports,
    shared_inputs,
    tasks_of,
)


@pytest.mark.parametrize("name", PIPELINES)
def test_no_task_has_one_artifact_as_two_inputs(name):
    ir, _ = default_documents(name)
    assert not shared_inputs(ir) and not imports(ir)


@pytest.mark.parametrize("name", ["training", "comparison"])
@pytest.mark.parametrize("made", MADE)
def test_nor_has_one_whose_questions_or_queries_are_made(tmp_path, name, made):
    ir, _ = documents(compile_request(Request.from_settings(name, *MADE[made]), tmp_path / f"{name}.yaml"))
    assert not shared_inputs(ir) and not imports(ir)


def test_a_gate_may_compare_an_evaluation_with_itself(tmp_path):
    """As after a refresh that found nothing new: then both are one artifact of the store."""
    same = artifact("evaluation")
    ir, _ = documents(compile_request(Request(gate_of_one_evaluation(), {}), tmp_path / "gate.yaml"))
    assert not shared_inputs(ir)
    others = [artifact(kind) for kind in ("champion", "index", "passages")]
    expected = [*others, same, same, artifact("lost_questions")]
    assert imports(ir) == [(source.address, source.digest) for source in expected]


def test_what_several_tasks_read_is_imported_once(tmp_path):
    plan, passages = Plan("evaluation"), artifact("passages")
    for system in ("a", "b"):
        plan.add(
            StepPath("evaluate-bm25", system=system),
            "evaluate-bm25",
            Config(),
            passages=passages,
            questions=artifact("dev_questions"),
        )
    ir, _ = documents(compile_request(Request(plan, {}), tmp_path / "twice.yaml"))
    assert len(imports(ir)) == 2


def test_an_import_is_a_pod_of_ours(tmp_path):
    """KFP's importer opens no bucket at an S3 endpoint of one's own but the pipeline root's."""
    plan = Plan("evaluation")
    plan.add(
        StepPath("evaluate-bm25"),
        "evaluate-bm25",
        Config(),
        passages=artifact("passages"),
        questions=artifact("dev_questions"),
    )
    ir, platform = documents(compile_request(Request(plan, {}), tmp_path / "import.yaml"))
    executors = ir["deploymentSpec"]["executors"]
    assert not any("importer" in executor for executor in executors.values())
    task = tasks_of(ir)["import-artifact"]
    assert task["taskInfo"]["name"] == "import passages"
    name = ir["components"][task["componentRef"]["name"]]["executorLabel"]
    assert executors[name]["container"]["image"] == CPU_IMAGE and "activeDeadlineSeconds" in platform[name]
