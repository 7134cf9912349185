"""Requests: what a run is named by, and what travels with it."""

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest

from multiview.artifacts.record import Reference
from multiview.artifacts.store import LocalStore
from multiview.config import Comparison
from multiview.config.overrides import gather
from multiview.errors import InputError
from multiview.plans.comparison import comparison_of_evaluations
from multiview.plans.request import Request, describe
from multiview.steps.runs import Run, StepState
from multiview.tracking import TrackedRun
from pipelines.runs.rerun import cut
from tests.fixtures.project import Project

WHERE = {"kubeflow": {"service_account": "trainer"}, "notify": {"url": "http://example.org"}}


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    return Project.make(tmp_path_factory.mktemp("request"))


@pytest.fixture
def request_(project) -> Request:
    return Request.make("training", gather(str(project.folder / "tiny.yaml"), []), "tiny.yaml")


@pytest.fixture
def store(project) -> LocalStore:
    return LocalStore(project.folder / "store")


def named(request: Request, **more: Any) -> str:
    """The id of a run by the plain formula."""
    identity = {
        "pipeline": request.plan.name,
        "config": {name: value for name, value in request.overrides.items() if name not in WHERE},
        "versions": {node.step.name: node.step.version for node in request.plan.nodes.values()},
        **more,
    }
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"))
    return f"{request.plan.name}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def sources(request: Request, store: LocalStore) -> dict[str, Any]:
    return {str(path): content for path, content in request.plan.fingerprints(store).items()}


def test_a_run_is_named_by_what_decides_its_outputs(request_, store):
    run = describe(request_, store)
    assert run.id == named(request_, sources=sources(request_, store))
    assert set(sources(request_, store)) == {"split", "camvr/initial-model", "camvr/round-2/mine"}
    alike = (replace(request_, preset=None, study="s", compares=("a",)), request_.over(WHERE))
    assert {describe(other, store).id for other in alike} == {run.id}


def test_a_rerun_is_named_by_its_run_and_its_steps(request_, store):
    steps = {
        str(path): StepState(
            path=str(path),
            step=path.step,
            status="done",
            outputs={kind: Reference(address=f"/s/{kind}/k", digest=kind) for kind in node.step.outputs},
        )
        for node in request_.plan.nodes.values()
        for path in node.paths()
    }
    earlier = Run(
        id="training-1", pipeline="training", config=request_.overrides, architectures={"camvr": "x"}
    )
    part = cut(TrackedRun("m", store.url, earlier, steps), "camvr/round-1/encode", {}, downstream=False)
    run = describe(part, store)
    paths = ["camvr/round-1/encode/shard-00", "camvr/round-1/encode/shard-01"]
    assert run.id == named(part, rerun_of="training-1", steps=paths, sources={})
    assert (run.rerun_of, run.steps, run.architectures) == ("training-1", paths, {"camvr": "x"})


def test_a_schedule_is_named_without_what_each_of_its_starts_finds(request_, store):
    run = describe(replace(request_, schedule="nightly"), store)
    assert run.id == named(request_, schedule="nightly") and run.each_time
    gone = request_.overrides | {"questions": {"source": str(store.root / "none.json")}}
    with pytest.raises(InputError, match=r"none\.json"):
        describe(replace(Request.make("training", gone), schedule="nightly"), store)


def test_a_comparison_of_evaluations_is_named_by_their_digests(store):
    evaluations = {row: Reference(address=f"/s/evaluation/{row}", digest=f"d{row}") for row in "ab"}
    plan = comparison_of_evaluations("compare", evaluations, Comparison(rows=("a", "b")))
    request = Request(plan, {"comparison": {"rows": ["a", "b"]}}, compares=("one", "two"))
    inputs = [[step, digest] for step in ("compare", "report") for digest in ("da", "db")]
    run = describe(request, store)
    assert run.id == named(request, inputs=inputs, sources={})
    assert run.compares == ["one", "two"] and run.architectures == {}


def test_settings_lie_over_the_preset_and_both_over_a_cluster_s(project):
    preset = str(project.folder / "tiny.yaml")
    under = {"kubeflow": {"service_account": "cluster", "mlflow_uri": "http://mlflow"}, "notify": {}}
    settings = ["kubeflow.service_account=mine", "train.epochs=7"]
    request = Request.from_settings("training", preset, settings).over(under)
    assert request.overrides["kubeflow"] == {"service_account": "mine", "mlflow_uri": "http://mlflow"}
    assert (request.config.train.epochs, request.config.bm25.depth, request.preset) == (7, 8, preset)
    whole = Request.make("training", request.overrides, preset)
    assert request == whole, "where steps run is no part of the plan"


def test_of_several_presets_the_later_ones_win(tmp_path):
    for name, text in (("a", "{train: {epochs: 3, batch_size: 4}}"), ("b", "{train: {epochs: 5}}")):
        (tmp_path / f"{name}.yaml").write_text(text)
    presets = [str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")]
    data = ["corpus.source=p.parquet", "questions.source=q.jsonl"]
    for given, epochs in ((presets, 5), (presets[::-1], 3)):
        request = Request.from_settings("training", given, data)
        assert (request.config.train.epochs, request.config.train.batch_size) == (epochs, 4)
        assert request.preset == ", ".join(given)
    assert Request.from_settings("training", presets[0], data).preset == presets[0]


def test_an_unknown_pipeline_is_one_line_with_the_nearest_name():
    with pytest.raises(InputError, match=r"^there is no pipeline 'trainign'; did you mean training\?$"):
        Request.from_settings("trainign", None, None)


def test_a_setting_that_every_trained_system_overrides_is_refused():
    refused = "train.learning_rate: mvr and snippet-means set their own; use comparison.systems.mvr.train.learning_rate"
    with pytest.raises(InputError, match=f"^{refused}$"):
        Request.from_settings("comparison", "demo", ["train.learning_rate=0.5"])
    own = "comparison.systems.mvr.train.learning_rate=0.5"
    for settings in ([own], ["train.epochs=2"], ["train.max_steps=60"], ["train.round_two.negatives=2"], []):
        Request.from_settings("comparison", "demo", settings)
