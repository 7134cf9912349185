"""Artifacts from outside a plan are references; KFP's metadata store refuses one artifact as two inputs of one task."""

import pytest

from multiview.artifacts.record import Reference
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
    made_documents,
    shared_inputs,
    tasks_of,
)


@pytest.mark.parametrize("name", PIPELINES)
def test_no_task_has_one_artifact_as_two_inputs(name):
    ir, _ = default_documents(name)
    assert not shared_inputs(ir) and not imports(ir)


@pytest.mark.parametrize(
    ("name", "made"), [*(("training", made) for made in MADE), ("comparison", "queries")]
)
def test_nor_has_one_whose_questions_or_queries_are_made(name, made):
    ir, _ = made_documents(made, name)
    assert not shared_inputs(ir) and not imports(ir)


def test_a_gate_may_compare_an_evaluation_with_itself(tmp_path):
    """As after a refresh that found nothing new: then both are one artifact of the store."""
    same = artifact("evaluation")
    ir, _ = documents(compile_request(Request(gate_of_one_evaluation(), {}), tmp_path / "gate.yaml"))
    assert not shared_inputs(ir)
    others = [artifact(kind) for kind in ("champion", "index", "passages")]
    expected = [*others, same, same, artifact("lost_questions")]
    assert sorted(imports(ir)) == sorted((source.address, source.digest) for source in expected)


def test_what_is_there_takes_no_pod_and_is_read_by_address_and_digest(tmp_path):
    plan, passages, questions = Plan("evaluation"), artifact("passages"), artifact("dev_questions")
    for system in ("a", "b"):
        path = StepPath("evaluate-bm25", system=system)
        plan.add(path, "evaluate-bm25", Config(), passages=passages, questions=questions)
    ir, _ = documents(compile_request(Request(plan, {}), tmp_path / "twice.yaml"))
    assert set(tasks_of(ir)) == {"open-run", "close-run", "evaluate-bm25", "evaluate-bm25-2"}
    read = [(source.address, source.digest) for source in (passages, questions)]
    assert sorted(imports(ir)) == sorted(2 * read)
    for task in ("evaluate-bm25", "evaluate-bm25-2"):
        given = tasks_of(ir)[task]["inputs"]["parameters"]["passages"]["runtimeValue"]["constant"]
        assert Reference.model_validate_json(given) == passages
