"""The training pipeline on a small corpus with a tiny BERT: run, found again, rerun, shipped to MLflow."""

import json
import re
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from multiview import names, tracking
from multiview.artifacts.bucket_store import BucketStore
from multiview.artifacts.record import load_record
from multiview.artifacts.store import LocalStore, open_store
from multiview.cli.lookup import Lookup
from multiview.config import canonical_json
from multiview.errors import InputError
from multiview.lineage.trace import flaws, trace
from multiview.plans.request import Request
from multiview.steps.runs import Run, RunReference, read_state
from multiview.steps.table import step
from multiview.tracking import shipping
from pipelines.runs import local, progress
from pipelines.runs.rerun import cut, verify
from tests.fixtures.bucket import free_port
from tests.fixtures.bucket_kinds import without_sleep
from tests.fixtures.documented import words
from tests.fixtures.project import PATHS, ROOT, Project


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    return Project.make(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def trained(project) -> str:
    """The run of the whole pipeline, in the project's store."""
    project("run", "training")
    (run,) = project.runs()
    return run


def test_the_whole_dag_runs(project, trained):
    states = project.states(trained)
    assert sorted(states) == sorted(PATHS)
    assert {state.status for state in states.values()} == {"done"}
    for state in states.values():
        for reference in state.outputs.values():
            _, record = load_record(reference.address)
            assert record.digest == reference.digest
            assert all(file.sha256 and file.bytes for file in record.files)
    _, evaluation = load_record(states["camvr/round-2/evaluate"].outputs["evaluation"].address)
    assert {"metrics.json", "run.trec", "qrels.trec"} <= {file.path for file in evaluation.files}
    assert evaluation.environment["torch"]


FOUND = """
import json, sys
from types import SimpleNamespace
from multiview.kubeflow.component import execute
context, config, folder, *outputs = sys.argv[1:]
execute("split", context, "split", config, **{
    name: SimpleNamespace(name=name, path=f"{folder}/{name}", metadata={}) for name in outputs
})
print(sorted({"torch", "transformers", "mlflow", "faiss", "nltk"} & set(sys.modules)))
"""


def test_a_step_that_is_found_imports_nothing_heavy(project, trained, tmp_path):
    """As it is where other steps of its run have work to do."""
    state, declared = project.states(trained)["split"], step("split")
    context = RunReference(store=project.store, run=trained).model_dump_json()
    outputs = [*declared.outputs, *([names.METRICS] if declared.figures_path else [])]
    words = [sys.executable, "-c", FOUND, context, canonical_json(state.config), str(tmp_path), *outputs]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "✓ split found\n[]\n"
    again = read_state(LocalStore(Path(project.store)), trained, "split")
    assert again and (again.status, again.outputs) == ("found", state.outputs)


def test_the_same_command_again_imports_nothing_heavy(project, trained):
    before = {path for path in Path(project.store).rglob("*") if "runs" not in path.parts}
    driver = project.start("run", "training", PYTHONPROFILEIMPORTTIME="1")
    output, _ = driver.communicate(timeout=120)
    assert driver.returncode == 0 and "0 steps done, 13 found" in output
    imports = set(re.findall(r"import time:[ \d|]+\| +(\w+)$", output, re.MULTILINE))
    assert "pydantic" in imports
    assert not imports & {"torch", "transformers", "mlflow", "faiss", "nltk", "kfp"}
    after = {path for path in Path(project.store).rglob("*") if "runs" not in path.parts}
    assert after == before
    assert {state.status for state in project.states(trained).values()} == {"found"}


def test_results_are_those_of_the_steps_whatever_the_display_last_saw(project, trained, monkeypatch):
    def unread(*given, **_):
        raise OSError("the store does not answer")

    monkeypatch.setattr(progress, "read_states", unread)
    assert "0 steps done, 13 found" in project("run", "training")


@pytest.mark.parametrize("path", ["split", "camvr/round-1/encode/shard-01", "camvr/round-2/index"])
def test_only_the_step_whose_output_is_gone_is_done_again(project, trained, path):
    before = project.states(trained)
    (lost, *_) = before[path].outputs.values()
    (Path(lost.address) / "artifact.json").unlink()
    output = project("run", "training")
    assert "1 step done, 12 found" in output
    after = project.states(trained)
    outputs = [{each: state.outputs for each, state in states.items()} for states in (before, after)]
    assert outputs[0] == outputs[1]
    assert [each for each, state in after.items() if state.status == "done"] == [path]


def test_mlflow_holds_the_run_its_steps_and_what_flowed_between_them(project, trained):
    from mlflow import MlflowClient

    found = tracking.find_run(project.tracking, trained)
    assert sorted(found.steps) == sorted(PATHS)
    for path, state in project.states(trained).items():
        assert found.steps[path].outputs == state.outputs
        assert found.steps[path].inputs == state.inputs
    client = MlflowClient(project.tracking)
    experiment = client.get_experiment_by_name("multiview")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    assert len(runs) == 1 + len({"camvr"}) + len(PATHS)
    assert {run.info.status for run in runs} == {"FINISHED"}
    children = {run.data.tags["multiview.path"]: run for run in runs if "multiview.path" in run.data.tags}
    train, evaluate = children["camvr/round-2/train"], children["camvr/round-2/evaluate"]
    steps = [m.step for m in client.get_metric_history(train.info.run_id, "loss")]
    assert len(steps) == len(set(steps)) > 1, "every LOG_STEPS steps, and the last"
    assert train.data.params["train.positive"] == "answer"
    train = client.get_run(train.info.run_id)
    assert train.inputs is not None and train.outputs is not None
    read = {d.dataset.name.split("-")[0] for d in train.inputs.dataset_inputs}
    assert read == {"passages", "train_questions", "negatives"}
    assert len(train.outputs.model_outputs) == 1
    evaluation = _folder(project, trained, "camvr/round-2/evaluate", "evaluation")
    metrics = json.loads((evaluation / "metrics.json").read_text())
    assert {name: evaluate.data.metrics[name] for name in metrics} == metrics
    # Shipping again changes nothing.
    before = [(r.info.run_id, r.data.to_dictionary()) for r in runs]
    open_store(project.store).remove(f"runs/{trained}/mlflow/shipped")
    assert tracking.sync(open_store(project.store), project.tracking) == ([trained], {})
    assert [
        (r.info.run_id, r.data.to_dictionary()) for r in client.search_runs([experiment.experiment_id])
    ] == before
    assert tracking.sync(open_store(project.store), project.tracking) == ([], {})


def test_every_byte_that_made_the_run_is_verified_from_its_mlflow_id(project, trained, tmp_path):
    """From any of its steps one walks to models, negatives, passages and code."""
    found = tracking.find_run(project.tracking, trained)
    lineage = trace(Lookup(str(tmp_path), project.tracking).artifacts(found.mlflow_id))
    assert list(flaws(lineage)) == []
    outputs = {r.address for state in project.states(trained).values() for r in state.outputs.values()}
    assert {node.address for node in lineage.nodes} == outputs
    (commit,) = {node.record.environment["git_sha"].removesuffix("-dirty") for node in lineage.nodes}
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert commit == head.stdout.strip() == (found.run.git_sha or "")[:40]


def test_every_step_can_be_rerun_from_mlflow(project, trained):
    """Its plan reads exactly what the step read in the earlier run."""
    earlier, states = tracking.find_run(project.tracking, trained), project.states(trained)
    for path in {*PATHS, *(path.rpartition("/shard-")[0] for path in PATHS if "shard" in path)}:
        part = cut(earlier, path, {}, downstream=False)
        steps = [str(step) for step in part.plan.paths()]
        assert steps == [p for p in PATHS if p == path or p.startswith(f"{path}/")]
        expected = {
            reference.address
            for step in steps
            for references in states[step].inputs.values()
            for reference in references
        }
        assert {source.address for _, _, source in part.plan.artifacts()} == expected
        verify(part.plan)


def test_a_dry_run_or_rerun_says_what_it_would_do_and_does_nothing(project, trained, tmp_path):
    known = project("run", "training", "--dry-run").splitlines()
    assert [line.split() for line in known if line.startswith("  ")] == [["found", path] for path in PATHS]
    other = replace(project, store=str(tmp_path / "store"))("run", "training", "--dry-run").splitlines()
    assert [line.split() for line in other if line.startswith("  ")] == [["new", path] for path in PATHS]
    assert not (tmp_path / "store").exists()
    output = project("rerun", "camvr/round-2/encode", "--from", trained, "--dry-run", "--downstream")
    steps = [line.split()[1] for line in output.splitlines() if line.split()[:1] == ["runs"]]
    assert steps == PATHS[9:]
    assert project.runs() == [trained]


def test_a_dry_run_never_takes_a_store_that_cannot_be_read_for_an_empty_one(monkeypatch):
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setattr("gcsfs.retry.asyncio", without_sleep())
    plan = Request.from_settings("training", "demo", []).plan
    with pytest.raises(InputError, match=r"^gs://unread/store: the server cannot be reached"):
        next(local.dry_run_lines(plan, open_store("gs://unread/store")))


@pytest.mark.documented("python -m pipelines rerun camvr/round-2/encode ")
def test_a_rerun_does_that_step_and_what_follows_with_verified_inputs(documented, project, trained):
    from mlflow import MlflowClient

    parent = tracking.find_run(project.tracking, trained).mlflow_id
    output = project(*words(documented.replace("RUN", parent)))
    assert "4 steps done, 0 found" in output
    (rerun,) = [run for run in project.runs() if run != trained]
    states, earlier = project.states(rerun), project.states(trained)
    assert list(states) == sorted(PATHS[9:])
    for path in PATHS[9:11]:
        assert states[path].inputs == earlier[path].inputs
        assert states[path].outputs != earlier[path].outputs
        assert states[path].config["encode"]["compute"] == "autocast"
    new = MlflowClient(project.tracking).get_run(tracking.find_run(project.tracking, rerun).mlflow_id)
    assert new.data.tags["multiview.rerun_of"] == trained

    # One flipped byte in an input: the line names the file.
    model = Path(_folder(project, trained, "camvr/round-2/train", "model"))
    file = model / "passage" / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    try:
        output = project("rerun", "camvr/round-2/encode", "--from", trained, status=2)
        assert "model.safetensors was altered" in output
    finally:
        data[-1] ^= 1
        file.write_bytes(data)
    # A rerun of a rerun: its own steps first, the others from the run that it came from.
    part = cut(tracking.find_run(project.tracking, rerun), "camvr/round-2/evaluate", {}, downstream=False)
    read = {name: source for _, name, source in part.plan.artifacts()}
    assert read["index"] == states["camvr/round-2/index"].outputs["index"]
    assert read["model"] == earlier["camvr/round-2/train"].outputs["model"]

    for path, run, line in (
        ("camvr/round-2/encod", trained, "did you mean camvr/round-2/encode"),
        ("split", "nonsense", "has no run nonsense"),
    ):
        assert line in project("rerun", path, "--from", run, status=2)


def test_training_starts_from_an_earlier_models_address(project, trained):
    address = project.states(trained)["camvr/round-1/train"].outputs["model"].address
    output = project("run", "training", "--set", f"train.model={address}", "--set", "train.rounds=0")
    assert "initial-model" not in output
    # Its index is found: the same model over the same shards.
    assert re.search(r"camvr/round-0/index +found", output)
    another = ("--set", "model.pooling=snippet")
    output = project("run", "training", "--set", f"train.model={address}", *another, status=2)
    assert "model.pooling: snippet, but train.model: " in output
    index = project.states(trained)["camvr/round-1/index"].outputs["index"].address
    output = project("run", "training", "--set", f"train.model={index}", status=2)
    assert "is the address of index, not of a model" in output


def _folder(project: Project, run: str, path: str, kind: str) -> Path:
    store, record = load_record(project.states(run)[path].outputs[kind].address)
    assert isinstance(store, LocalStore)
    return store.root / record.data


def test_a_log_beside_a_store_in_a_bucket_lies_where_nobody_else_can_have_put_a_link(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    log = local._log_file(BucketStore("gs://bucket/store"), Run(id="r", pipeline="training", config={}))
    assert log.name == "r.log" and log.parent.parent == tmp_path
    assert log.parent.stat().st_mode & 0o777 == 0o700


def test_ctrl_c_and_sigterm_say_that_the_same_command_goes_on(project, monkeypatch):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            monkeypatch.setattr(local, "execute", lambda *_, number=number: signal.raise_signal(number))
            output = project("run", "training", "--set", "train.rounds=0", status=130)
            assert "stopped; the same command goes on from here\n" in output
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("failure", [KeyboardInterrupt, ValueError])
def test_of_a_run_that_stops_nothing_runs_on_in_mlflow(tmp_path, failure, monkeypatch):
    from mlflow import MlflowClient

    def stopped(step, *rest):
        if step.name == "split":  # the systems' models are there
            raise failure
        return run_step(step, *rest)

    run_step = local.run_step
    monkeypatch.setattr(local, "run_step", stopped)
    project = Project.make(tmp_path)
    more = "comparison.systems={mvr: {model: {architecture: mvr}}, camvr: {}}"
    project("run", "comparison", "--set", more, status=130 if failure is KeyboardInterrupt else 1)
    runs = MlflowClient(project.tracking).search_runs(["1"])
    assert {"mvr", "camvr"} <= {run.info.run_name for run in runs}
    assert {run.info.status for run in runs} == {"FAILED", "FINISHED"}


def test_a_run_that_is_stopped_does_not_wait_for_an_mlflow_that_hangs(project, monkeypatch):
    ended, waited = threading.Event(), []
    monkeypatch.setattr(shipping, "ship", lambda *_, **__: waited.append(ended.wait(60)))
    monkeypatch.setattr(tracking, "ship", shipping.ship)
    monkeypatch.setattr(shipping, "END_SECONDS", 0.1)
    monkeypatch.setattr(local, "execute", lambda *_: signal.raise_signal(signal.SIGTERM))
    project("run", "training", "--set", "train.rounds=0", status=130)
    assert not waited
    ended.set()


def test_what_steps_and_libraries_print_is_in_the_log(project, monkeypatch):
    def loud(*_: object) -> None:
        print("said")
        subprocess.run(["sh", "-c", "echo complained >&2"], check=True)
        raise ValueError("too loud")

    monkeypatch.setattr(local, "execute", loud)
    output = project("run", "training", "--set", "train.rounds=0", "--set", "train.seed=5", status=1)
    found = re.search(r"error: training: ValueError: too loud .*; its log is (\S+)", output)
    assert found and "said" not in output and "complained" not in output
    lines = Path(found[1]).read_text().splitlines()
    assert lines[:2] == ["said", "complained"] and lines[-1] == "ValueError: too loud"


def test_steps_leave_nothing_in_the_temporary_folder(project, trained, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert "1 step done" in project("run", "training", "--set", "evaluation.depth=7", TMPDIR=str(tmp_path))
    left = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    # A lock's file stays: who removed it could remove another's.
    assert not {name for name in left if not fnmatch(name, "multiview-ship-*.lock")}


def test_a_base_that_does_not_fit_ends_a_run_before_its_data_is_read(tmp_path):
    project = Project.make(tmp_path)
    weights = tmp_path / "base" / "model.safetensors"
    whole = load_file(weights)
    for prefix, line in (
        ("module.", "error: model.base: .* begin with module."),
        ("net.", r"error: \S+/initial-model: model.base: .* has no weights for (\S+), but for net.\1;"),
    ):
        renamed = {f"{prefix}{name}": weight for name, weight in whole.items()}
        save_file(renamed, weights, metadata={"format": "pt"})
        output = project("run", "comparison", status=2)
        assert re.search(line, output) and output.count("error:") == 1 and "Traceback" not in output
        assert not [*(tmp_path / "store").rglob("*.parquet"), *(tmp_path / "store").rglob("*.safetensors")]
