"""`rerun --submit`: the same cut as here, started on Kubeflow, from a run that Kubeflow or MLflow knows."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from mlflow import MlflowClient

from multiview import names, tracking
from multiview.artifacts.attempt import Attempt
from multiview.artifacts.record import Reference
from multiview.artifacts.store import open_store
from multiview.config import Evaluation
from multiview.config.overrides import gather
from multiview.errors import InputError
from multiview.kubeflow.run import open_run
from multiview.plans.request import Request, describe
from multiview.plans.system import training
from multiview.steps.runs import Run, StepState, write_state
from pipelines.runs.rerun import cut
from tests.fixtures.compiled import imports
from tests.fixtures.servers import new_database
from tests.pipelines.kubeflow.conftest import write_small

KFP_RUN = "6b6c1ad4-4f0d-4e3f-9f57-5d2cbd4f6a10"
STARTS = (KFP_RUN, KFP_RUN.replace("6b6", "7c7"))
EVALUATE, INDEX = "camvr/round-1/evaluate", "camvr/round-1/index"


@dataclass
class Earlier:
    """A run that Kubeflow has run up to its evaluation, in a bucket and in MLflow."""

    run: Run
    store: str
    tracking: str
    outputs: dict[str, Reference]


@pytest.fixture(scope="module")
def earlier(bucket, tmp_path_factory) -> Earlier:
    folder = tmp_path_factory.mktemp("earlier")
    write_small(folder)
    store, database = open_store(f"{bucket}/{folder.name}"), new_database(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv("MLFLOW_TRACKING_URI", database)
        overrides = gather(str(folder / "small.yaml"), ["kubeflow.service_account=of-the-run"])
        plan = training(overrides)
        described = describe(Request(plan, overrides, "small.yaml"), store)
        for job in STARTS:
            open_run(store.url, described.model_dump_json(), job)
    outputs = {}
    for node in plan.nodes.values():
        if str(node.path) == EVALUATE:
            continue
        for path in map(str, node.paths()):
            made = {}
            for kind in node.step.outputs:
                attempt = Attempt(store, kind, path.replace("/", "-"))
                (attempt.path / "data").write_text(f"{kind} of {path} in {store.url}")
                record, _ = attempt.publish(step=node.step.name, step_version=1, config={}, inputs={})
                made[kind] = Reference.to(store, record)
            outputs |= made
            state = StepState(
                path=path, step=node.step.name, status="done", outputs=made, started=1.0, ended=2.0
            )
            write_state(store, described.id, state)
    tracking.ship(store, described.id, database)
    return Earlier(described, store.url, database, outputs)


def rerun(earlier: Earlier, kubeflow, options: str = "", step: str = EVALUATE, run: str = KFP_RUN) -> str:
    return f"rerun {step} --from {run} --submit {where(earlier, kubeflow)} {options}"


def where(earlier: Earlier, kubeflow) -> str:
    return f"--host {kubeflow.url} --store {earlier.store} --tracking-uri {earlier.tracking}"


@pytest.mark.documented("python -m pipelines rerun camvr/round-2/evaluate ")
def test_a_step_of_a_kubeflow_run_is_run_again_there(documented, kubeflow, command, earlier, monkeypatch):
    """Of a run with one round here."""
    Path("profiles.yaml").write_text("default: {settings: {kubeflow: {service_account: of-the-profile}}}")
    monkeypatch.setenv("MULTIVIEW_PROFILES", "profiles.yaml")
    line = documented.removeprefix("python -m pipelines ").replace("camvr/round-2/evaluate", EVALUATE)
    printed = command(f"{line.replace('RUN', KFP_RUN)} {where(earlier, kubeflow)}")
    (run,) = kubeflow.runs.values()
    assert f"started: {kubeflow.url}/#/runs/details/{run.run_id}" in printed
    assert run.service_account == "of-the-profile"
    described = Run.model_validate_json(run.runtime_config.parameters["described"])
    assert described.rerun_of == earlier.run.id and described.steps == [EVALUATE]
    assert described.config["evaluation"]["depth"] == 50 and described.id != earlier.run.id
    assert run.runtime_config.parameters["store"] == earlier.store
    (version,) = kubeflow.versions.values()
    read = ("passages", "dev_questions", "train_questions", "model", "index")
    expected = [(r.address, r.digest) for r in map(earlier.outputs.get, read) if r]
    imported = imports(version.pipeline_spec["pipeline_spec"])
    assert sorted(imported) == sorted(expected) and len(expected) == len(read)
    command(rerun(earlier, kubeflow, "--set kubeflow.service_account=as-set"))
    assert list(kubeflow.runs.values())[-1].service_account == "as-set", "a setting wins over the profile"


def test_the_rerun_and_its_children_name_the_run_they_came_from(kubeflow, command, earlier, monkeypatch):
    command(rerun(earlier, kubeflow))
    (run,) = kubeflow.runs.values()
    given = run.runtime_config.parameters
    monkeypatch.setenv("MLFLOW_TRACKING_URI", earlier.tracking)
    open_run(given["store"], given["described"], run.run_id)
    store, described = open_store(given["store"]), Run.model_validate_json(given["described"])
    state = StepState(path=EVALUATE, step="evaluate", status="done", started=1.0, ended=2.0)
    write_state(store, described.id, state)
    tracking.ship(store, described.id, earlier.tracking)
    found = tracking.find_run(earlier.tracking, run.run_id)
    assert found.run.id == described.id and set(found.steps) > {EVALUATE}
    client = MlflowClient(earlier.tracking)
    parent = client.get_run(found.mlflow_id)
    runs = client.search_runs([parent.info.experiment_id], f"tags.`multiview.run` = '{described.id}'")
    assert {run.data.tags["multiview.rerun_of"] for run in runs} == {earlier.run.id}
    assert sorted(run.data.tags[names.TAG_LEVEL] for run in runs) == ["pipeline", "step", "system"]


def test_any_start_of_a_run_finds_it(earlier):
    for identity in (*STARTS, earlier.run.id):
        assert tracking.find_run(earlier.tracking, identity, earlier.store).run.id == earlier.run.id


def test_bad_input_is_one_line_and_nothing_is_sent(kubeflow, command, earlier):
    for line, expected in (
        (rerun(earlier, kubeflow, run=KFP_RUN[:8]), f"has no run {KFP_RUN[:8]}: give an MLflow, Kubeflow or"),
        (
            rerun(earlier, kubeflow, step="camvr/round-1/evalaute"),
            "did you mean camvr/round-1/evaluate or camvr/round-1/encode? There are: split, bm25-negatives,",
        ),
        (
            rerun(earlier, kubeflow, step="nothing-like-it"),
            "there are: split, bm25-negatives, camvr/initial-model",
        ),
        (rerun(earlier, kubeflow, "--set train.epochs=3"), "train.epochs is not read by"),
        (
            rerun(earlier, kubeflow, f"--set evaluation.depth={Evaluation().depth}"),
            "evaluation.depth changes nothing of camvr/round-1/evaluate: it has this value already, or",
        ),
        (rerun(earlier, kubeflow, step="camvr/round-1/evaluate").replace(kubeflow.url, "''"), "is not known"),
    ):
        assert expected in command(line, status=2)
    assert not kubeflow.requests


@pytest.mark.parametrize("pipeline", ["compare", "study"])
def test_a_comparison_of_runs_has_no_step_to_rerun(earlier, pipeline):
    found = tracking.find_run(earlier.tracking, KFP_RUN, earlier.store)
    compared = replace(found, run=found.run.model_copy(update={"pipeline": pipeline}))
    with pytest.raises(InputError, match=f"is of `python -m pipelines {pipeline}`, which has no steps"):
        cut(compared, pipeline, {}, downstream=False)


def test_an_artifact_that_is_gone_altered_or_rebuilt_is_one_line_and_nothing_is_sent(
    kubeflow, command, earlier
):
    """The embeddings, which no other test here reads."""
    store, embeddings = open_store(earlier.store), earlier.outputs["embeddings"]
    line = rerun(earlier, kubeflow, step=INDEX)
    folder = embeddings.address.removeprefix(f"{store.url}/")
    (data,) = [file for file in store.files(folder) if file.endswith("/data")]
    content = store.read(data)
    assert content
    store.replace(data, content[::-1])
    assert folder in command(line, status=2)
    store.remove(f"{folder}/{names.RECORD_FILE}")
    assert f"rerun: there is no artifact at {embeddings.address}: " in command(line, status=2)
    attempt = Attempt(store, *folder.split("/"))
    (attempt.path / "data").write_text("other bytes")
    attempt.publish(step="encode", step_version=1, config={}, inputs={})
    told = command(line, status=2)
    assert f"rerun: {embeddings.address} has digest " in told and "it was rebuilt since" in told
    assert not kubeflow.requests


def test_a_run_in_a_folder_of_this_machine_is_refused(kubeflow, command, earlier):
    line = rerun(earlier, kubeflow).replace(earlier.store, "here")
    assert "which no pod reaches" in command(line, status=2)
    assert not kubeflow.requests
