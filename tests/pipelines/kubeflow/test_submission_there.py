"""Submissions of runs whose steps are there: nothing is started for them, and the rest reads what they have made."""

import json
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from multiview import names
from multiview.artifacts.attempt import Attempt
from multiview.artifacts.record import Reference
from multiview.artifacts.store import LocalStore, Store, open_store
from multiview.config.kubeflow import Notify
from multiview.config.overrides import gather
from multiview.errors import InputError
from multiview.kubeflow.run import close_run, open_run
from multiview.plans.plan import Outputs, Plan
from multiview.plans.request import Request
from multiview.steps.runs import Run, StepState, read_state, read_states, write_state
from multiview.steps.work import Work
from multiview.tracking import find_run
from tests.fixtures.compiled import all_tasks, imports, tasks_of
from tests.fixtures.servers import inbox, new_database

SUBMIT = "submit training --preset small.yaml --set corpus.shards=2"
SHARDS = ("shard-00", "shard-01")
OWN = {"open-run", "close-run"}


@pytest.fixture(autouse=True)
def metrics_alone(quick, monkeypatch):
    """Outputs hold nothing but metrics."""
    monkeypatch.setattr("pipelines.runs.results._table", lambda states, metrics: str(metrics))


@pytest.fixture
def store(store) -> Store:
    return open_store(store)


@pytest.fixture
def plan(user) -> Plan:
    return Request.make("training", gather("small.yaml", ["corpus.shards=2"])).plan


def put(plan: Plan, store: Store, but: str = "") -> Outputs:
    """Publishes what the steps of a plan would make, as far as it does not need that of the step at `but`."""
    outputs: Outputs = {}
    for node in plan.nodes.values():
        for path in node.paths():
            try:
                inputs = plan.inputs_of(node, path, outputs)
            except KeyError:
                continue
            work = Work.resolve(node.step, node.config, inputs, store)
            if str(path) == but:
                continue
            outputs[path] = {}
            for kind in node.step.outputs:
                attempt = Attempt(store, kind, work.key)
                for shard in SHARDS:
                    table = pa.table({"text": [f"{kind} of {path} in {shard}"]})
                    pq.write_table(table, attempt.path / f"{shard}.parquet")
                (attempt.path / "metrics.json").write_text(
                    json.dumps({"accuracy_at_1": 0.25, "mrr_at_10": 0.5})
                )
                record, _ = attempt.publish(
                    step=node.step.name, step_version=node.step.version, config={}, inputs=work.references
                )
                outputs[path][kind] = Reference.to(store, record)
    return outputs


def test_a_run_whose_steps_are_all_there_starts_nothing_and_prints_its_result(kubeflow, command, store, plan):
    outputs = put(plan, store)
    line = f"{SUBMIT} --wait --host {kubeflow.url} --store {store.url} --mlflow-ui http://localhost:5000"
    printed = command(line)
    assert not kubeflow.runs and not kubeflow.changes()
    assert "Look at it:   http://localhost:5000\n" in printed
    (run,) = store.folders(names.RUNS)
    steps = [str(path) for path in plan.paths()]
    assert f"{run}: {len(steps)} steps found, nothing to start\n" in printed
    assert "0.25" in printed and f"--index {outputs[list(outputs)[-2]]['index'].address}" in printed
    states = {state.path: state for state in read_states(store, run)}
    assert list(states) == sorted(steps), "which `trace`, `sync` and `gc` know it by"
    assert {state.status for state in states.values()} == {"found"}
    assert states["split"].outputs == {
        kind: outputs[next(iter(outputs))][kind] for kind in states["split"].outputs
    }
    assert command(f"{SUBMIT} --host {kubeflow.url} --store {store.url}").count("nothing to start") == 1
    assert not kubeflow.changes()


def test_a_run_whose_steps_are_all_there_is_in_mlflow_if_that_is_named(
    kubeflow, command, store, plan, monkeypatch, tmp_path
):
    put(plan, store)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri := new_database(tmp_path / "mlflow"))
    assert "not all of this run" not in command(f"{SUBMIT} --host {kubeflow.url} --store {store.url}")
    (run,) = store.folders(names.RUNS)
    assert find_run(uri, run).run.id == run


def test_who_may_only_read_the_store_sees_the_result_too(kubeflow, command, store, plan, monkeypatch):
    put(plan, store)
    monkeypatch.setattr("pipelines.kubeflow.submission.write_state", refused)
    assert "nothing to start" in command(f"{SUBMIT} --host {kubeflow.url} --store {store.url}")
    assert not kubeflow.changes()


def refused(*_: object) -> None:
    raise InputError("no access")


def test_steps_that_are_there_are_left_out_and_the_others_read_what_they_made(kubeflow, command, store, plan):
    outputs = put(plan, store, but="camvr/round-1/encode/shard-01")
    printed = command(f"{SUBMIT} --host {kubeflow.url} --store {store.url}")
    (run,) = kubeflow.runs.values()
    assert f" started without {len(outputs)} steps that the store has already: " in printed
    assert not kubeflow.versions and not kubeflow.pipelines, "what is left of a run is no version of it"
    spec = run.pipeline_spec["pipeline_spec"]
    tasks = {task["taskInfo"]["name"] for task in tasks_of(spec).values()}
    rest = {f"camvr/round-1/{step}" for step in ("encode", "index", "evaluate")}
    assert rest | OWN <= tasks and not tasks & {"split", "bm25-negatives", "camvr/round-1/train"}
    parameters = spec["root"]["inputDefinitions"]["parameters"]
    assert set(parameters) == {"store", "described"}, "what it was made of cannot be changed"
    by_path = {str(path): made for path, made in outputs.items()}
    read = [
        by_path["split"]["passages"],
        by_path["split"]["dev_questions"],
        by_path["camvr/round-1/train"]["model"],
    ]
    assert {(reference.address, reference.digest) for reference in read} <= set(imports(spec))
    given = tasks_of(spec)["close-run"]["inputs"]["parameters"]["there"]["runtimeValue"]["constant"]
    assert given == [str(path) for path in outputs], "which its exit handler does not miss"
    described = Run.model_validate_json(run.runtime_config.parameters["described"])
    assert described.steps == [str(path) for path in plan.paths()], "it is the same run"
    state = read_state(store, described.id, "split")
    assert state and state.status == "found" and state.key
    (loop,) = [task for task in all_tasks(spec).values() if "parameterIterator" in task]
    assert json.loads(loop["parameterIterator"]["items"]["raw"]) == ["shard-01"], (
        "of the shards, those that are missing"
    )
    (index,) = [task for task in all_tasks(spec).values() if task["taskInfo"]["name"].endswith("/index")]
    shards = json.loads(index["inputs"]["parameters"]["there"]["runtimeValue"]["constant"])
    assert shards == {"embeddings": [by_path["camvr/round-1/encode/shard-00"]["embeddings"].address, None]}
    assert "is going already: " in command(f"{SUBMIT} --host {kubeflow.url} --store {store.url}")
    assert len(kubeflow.runs) == 1


def test_such_a_run_is_followed_to_a_whole_end(kubeflow, command, store, plan, monkeypatch):
    """With steps that were found here before Kubeflow had made the run, by its clock a minute later."""
    put(plan, store, but="camvr/round-1/evaluate")
    looks: list[str] = []

    def on_run(run) -> None:
        given = run.runtime_config.parameters
        if not looks:
            open_run(given["store"], given["described"], run.run_id)
        else:
            (made,) = list(put(plan, store).values())[-1:]
            now = time.time()
            done = StepState(
                path="camvr/round-1/evaluate",
                step="evaluate",
                status="done",
                started=now + 60,
                ended=now + 61,
                outputs=made,
            )
            write_state(store, described(run).id, done)
            run.state = "SUCCEEDED"
        looks.append(run.run_id)

    real = kubeflow.__class__._create_run

    def create_later(self, request):
        run = real(self, request)
        run.created_at = run.created_at.replace(microsecond=0)
        return run

    monkeypatch.setattr(kubeflow.__class__, "_create_run", create_later)
    kubeflow.on_run = on_run
    printed = command(f"{SUBMIT} --wait --host {kubeflow.url} --store {store.url}")
    steps = len(plan.paths())
    assert f": 1 step done, {steps - 1} found, " in printed and "0.25" in printed


def described(run) -> Run:
    return Run.model_validate_json(run.runtime_config.parameters["described"])


def test_its_exit_handler_asks_for_the_steps_that_it_had(tmp_path):
    """Those that were there have no state of this start, or an older one."""
    store = LocalStore(tmp_path / "store")
    run = Run(id="training-1", pipeline="training", config={}, steps=["split", "index"])
    open_run(store.url, run.model_dump_json(), "job")
    write_state(store, run.id, StepState(path="index", step="index", status="done", started=time.time()))
    with inbox() as received:
        words = (run.model_dump_json(), "job", "SUCCEEDED", "", Notify(url=received.url), "training")
        close_run(store.url, *words, ["split"])
        assert not received.messages
        close_run(store.url, *words)
        assert len(received.messages) == 1
