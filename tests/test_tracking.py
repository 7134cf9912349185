"""Shipping to a real MLflow store: whatever is interrupted or repeated, MLflow ends up the same."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from mlflow import MlflowClient

from multiview import names, tracking
from multiview.artifacts.record import Reference
from multiview.artifacts.store import LocalStore
from multiview.errors import InputError
from multiview.events import EventLog
from multiview.runs import Run, StepState, write_run, write_state
from multiview.tracking import contents, shipping
from tests.servers import mlflow_server


class World:
    """A run whose steps are only told of, in a store of its own."""

    def __init__(self, folder: Path, uri: str, run: str = "training-1"):
        self.store, self.uri = LocalStore(folder), uri
        self.run = Run(
            id=run,
            pipeline="training",
            config={"train": {"epochs": 2}},
            steps=["split", "camvr/train", "camvr/evaluate"],
            architectures={"camvr": "camvr"},
        )
        write_run(self.store, self.run)

    def reference(self, kind: str, key: str) -> Reference:
        return Reference(address=f"{self.store.url}/{kind}/{key}", digest=f"{kind}{key}".ljust(64, "0"))

    def tell(self, path: str, attempt: str, losses: int = 0, status: str = "done", **more) -> None:
        """A step's state, and its events where this attempt has none yet."""
        step, kind = (
            path.rsplit("/", 1)[-1],
            {"split": "passages", "train": "model"}.get(path[-5:], "evaluation"),
        )
        data = f"{kind}/{path.replace('/', '-')}/attempts/{attempt}"
        log = EventLog(self.store, data)
        for number in range(losses):
            log.metric("loss", 1.0 / (number + 1), number + 1)
        if step == "evaluate":
            log.metric("accuracy_at_5", 0.75)
        outputs = (
            {} if status in ("failed", "running") else {kind: self.reference(kind, path.replace("/", "-"))}
        )
        inputs = {"passages": [self.reference("passages", "split")]} if step != "split" else {}
        if step == "evaluate":
            inputs |= {
                "model": [self.reference("model", "camvr-train")],
                "questions": [self.reference("dev_questions", "split")],
            }
        state = StepState.model_validate(
            {
                "path": path,
                "step": step,
                "status": status,
                "key": path.replace("/", "-"),
                "attempt": data,
                "config": {"encode": {"compute": "float32"}},
                "inputs": inputs,
                "outputs": outputs,
                "started": 1000.0 + len(path),
                "ended": None if status == "running" else 1100.0 + len(path),
                **more,
            }
        )
        write_state(self.store, self.run.id, state)

    def tell_all(self) -> None:
        self.tell("split", "s")
        self.tell("camvr/train", "t", losses=3)
        self.tell("camvr/evaluate", "e")

    def seen(self) -> dict:
        """All that MLflow holds of this run, but its own ids and times."""
        client = MlflowClient(self.uri)
        experiment = client.get_experiment_by_name("multiview")
        assert experiment is not None
        runs = client.search_runs([experiment.experiment_id], f"tags.`multiview.run` = '{self.run.id}'")
        seen = {}
        for run in [client.get_run(run.info.run_id) for run in runs]:
            path = run.data.tags.get("multiview.path", "")
            assert run.inputs is not None and run.outputs is not None
            assert path not in seen, f"{path} is there twice"
            own = (
                "mlflow.parentRunId",
                "mlflow.user",
                "mlflow.source.name",
                "multiview.run",
                "mlflow.runName",
            )
            text = {k: v.replace(self.store.url, "") for k, v in run.data.tags.items() if k not in own}
            seen[path] = (
                run.info.status,
                text,
                run.data.params,
                {
                    n: [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, n)]
                    for n in run.data.metrics
                },
                sorted(d.dataset.digest for d in run.inputs.dataset_inputs),
                len(run.inputs.model_inputs),
                len(run.outputs.model_outputs),
                [f.path for f in client.list_artifacts(run.info.run_id)],
            )
        return seen


@pytest.fixture(scope="module")
def uri(tmp_path_factory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow')}/mlflow.db"


@pytest.fixture(scope="module")
def expected(tmp_path_factory, uri) -> dict:
    """What MLflow holds after one uninterrupted shipping."""
    world = World(tmp_path_factory.mktemp("expected"), uri, "expected")
    world.tell_all()
    assert tracking.ship(world.store, world.run.id, uri)
    return world.seen()


def test_a_run_is_a_parent_and_each_step_a_child(expected):
    assert set(expected) == {"", "split", "camvr/train", "camvr/evaluate"}
    status, tags, params, metrics, _, _, _, files = expected[""]
    assert (status, params, files) == ("FINISHED", {"train.epochs": "2"}, ["run.json"])
    assert tags["architecture"] == "camvr"
    assert metrics == {"accuracy_at_5": [(0, 0.75)]}
    status, tags, params, metrics, datasets, inputs, outputs, _ = expected["camvr/train"]
    assert metrics == {"loss": [(1, 1.0), (2, 0.5), (3, pytest.approx(1 / 3))]}
    assert params == {"encode.compute": "float32"}
    assert (status, tags["architecture"], tags["system"]) == ("FINISHED", "camvr", "camvr")
    assert (len(datasets), inputs, outputs) == (1, 0, 1)
    assert expected["camvr/evaluate"][5] == 1


def test_files_of_the_same_name_in_two_folders_are_both_kept(tmp_path, monkeypatch):
    paths = ["metrics.json", "analyses/metrics.json", "analyses/usage.parquet"]
    record = SimpleNamespace(files=[SimpleNamespace(path=path) for path in paths], to_json=lambda: b"{}")
    monkeypatch.setattr(contents, "read_record", lambda *key: record)
    monkeypatch.setattr(contents, "stage", lambda *record: SimpleNamespace(path=tmp_path))
    client, world = Mock(), World(tmp_path, "", "files")
    child = SimpleNamespace(info=SimpleNamespace(run_id="child"), data=SimpleNamespace(tags={}))
    state = SimpleNamespace(outputs={"evaluation": world.reference("evaluation", "key")})
    contents.Contents(world.store, world.run, client, "0").tell_files("parent", child, state)  # type: ignore[arg-type]
    logged = [call.args[1:] for call in client.log_artifact.call_args_list]
    assert logged == [
        (str(tmp_path / "metrics.json"), "evaluation"),
        (str(tmp_path / "analyses/metrics.json"), "evaluation/analyses"),
    ]


def test_a_report_is_a_file_of_its_step_and_of_the_whole_run(tmp_path, monkeypatch):
    record = SimpleNamespace(files=[SimpleNamespace(path="report.html")], to_json=lambda: b"{}")
    monkeypatch.setattr(contents, "read_record", lambda *key: record)
    monkeypatch.setattr(contents, "stage", lambda *record: SimpleNamespace(path=tmp_path))
    client, world = Mock(), World(tmp_path, "", "files")
    child = SimpleNamespace(info=SimpleNamespace(run_id="child"), data=SimpleNamespace(tags={}))
    state = SimpleNamespace(outputs={"report": world.reference("report", "key")})
    contents.Contents(world.store, world.run, client, "0").tell_files("parent", child, state)  # type: ignore[arg-type]
    page = (str(tmp_path / "report.html"), "report")
    assert [call.args for call in client.log_artifact.call_args_list] == [("child", *page), ("parent", *page)]


def test_shipping_again_says_that_there_is_nothing_new(tmp_path, uri, expected):
    world = World(tmp_path, uri, "again")
    world.tell_all()
    assert tracking.ship(world.store, world.run.id, uri)
    assert not tracking.ship(world.store, world.run.id, uri)
    world.store.remove("runs/again/mlflow/shipped")
    assert tracking.ship(world.store, world.run.id, uri)
    assert world.seen() == expected


class Killed(Exception):
    pass


def test_a_shipper_killed_after_any_call_is_continued(tmp_path, uri, expected, monkeypatch):
    real = shipping.connect

    class Fragile:
        """A client whose process dies after some number of writes."""

        def __init__(self, left: int):
            self.client, self.left = real(uri), left

        def __getattr__(self, name: str):
            call = getattr(self.client, name)
            if name.split("_")[0] not in ("create", "log", "set", "update", "finalize", "delete"):
                return call

            def counted(*words, **named):
                result = call(*words, **named)
                self.left -= 1
                if self.left <= 0:
                    raise Killed
                return result

            return counted

    kills = 0
    for left in range(1, 100):
        world = World(tmp_path / str(left), uri, f"killed-{left}")
        world.tell_all()
        monkeypatch.setattr(shipping, "connect", lambda _, left=left: Fragile(left))
        try:
            tracking.ship(world.store, world.run.id, uri)
        except Killed:
            kills += 1
        monkeypatch.setattr(shipping, "connect", real)
        tracking.ship(world.store, world.run.id, uri)
        assert world.seen() == expected, f"after {left} calls"
        if left > kills:
            break
    assert kills > 10


def test_a_step_that_failed_and_then_succeeded_is_finished_in_mlflow(tmp_path, uri, expected):
    world = World(tmp_path, uri, "mended")
    world.tell("split", "s")
    world.tell("camvr/train", "first", losses=2, status="failed", error="no memory")
    tracking.ship(world.store, world.run.id, uri)
    seen = world.seen()
    assert (seen[""][0], seen["camvr/train"][0]) == ("FAILED", "FAILED")
    assert seen["camvr/train"][1]["error"] == "no memory"
    world.tell_all()
    tracking.ship(world.store, world.run.id, uri)
    assert world.seen() == expected


def test_a_step_is_shipped_while_it_runs(tmp_path, uri, expected):
    world = World(tmp_path, uri, "live")
    world.tell("split", "s")
    world.tell("camvr/train", "t", losses=1, status="running")
    tracking.ship(world.store, world.run.id, uri)
    assert world.seen()["camvr/train"][0] == "RUNNING"
    log = EventLog(world.store, "model/camvr-train/attempts/t")
    log.metric("loss", 0.5, 2)
    log.metric("loss", 1 / 3, 3)
    world.tell("camvr/train", "t")
    world.tell("camvr/evaluate", "e")
    tracking.ship(world.store, world.run.id, uri)
    assert world.seen() == expected


def test_two_stores_with_the_same_run_do_not_mix(tmp_path, uri):
    one, two = World(tmp_path / "one", uri, "twin"), World(tmp_path / "two", uri, "twin")
    for world in (one, two):
        world.tell_all()
        tracking.ship(world.store, world.run.id, uri)
    for world in (one, two):
        found = tracking.find_run(uri, "twin", world.store.url)
        assert found.store == world.store.url
        assert found.steps["split"].outputs["passages"] == world.reference("passages", "split")
        assert tracking.find_run(uri, found.mlflow_id) == found
    with pytest.raises(InputError, match="several stores hold run twin"):
        tracking.find_run(uri, "twin")


def test_sync_goes_on_after_a_broken_run(tmp_path, uri):
    world = World(tmp_path, uri, "zz-fine")
    world.tell_all()
    world.store.replace("runs/aa-broken/steps/split.json", b"{}")
    shipped, failed = tracking.sync(world.store, uri)
    assert shipped == ["zz-fine"]
    assert list(failed) == ["aa-broken"]
    with pytest.raises(InputError, match="has no runs"):
        tracking.sync(LocalStore(tmp_path / "typo"), uri)


def test_a_database_made_anew_is_filled_again(tmp_path):
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    world = World(tmp_path / "store", uri)
    world.tell_all()
    ship = "import sys; from multiview import tracking; from multiview.artifacts.store import open_store; "
    ship += "tracking.ship(open_store(sys.argv[1]), *sys.argv[2:])"
    # In a process of its own: MLflow keeps the database open.
    subprocess.run([sys.executable, "-c", ship, world.store.url, world.run.id, uri], check=True)
    (tmp_path / "mlflow.db").unlink()
    with pytest.raises(InputError, match="no MLflow database"):
        tracking.find_run(uri, world.run.id)
    assert tracking.ship(world.store, world.run.id, uri)
    assert set(world.seen()) == {"", *world.run.steps}


def test_a_server_that_is_down_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    world = World(tmp_path, "http://127.0.0.1:9")
    with pytest.raises(InputError, match=r"^MLflow at http://127.0.0.1:9: .+$"):
        tracking.ship(world.store, world.run.id, world.uri)


@pytest.mark.parametrize("run", ["it's", "", "a b"])
def test_what_is_no_run_id_is_refused(run, uri):
    with pytest.raises(InputError, match="is no run id"):
        tracking.find_run(uri, run)


def test_runs_are_shipped_to_a_server_over_http_and_found_there(tmp_path):
    words = ["server", "--backend-store-uri", f"sqlite:///{tmp_path}/mlflow.db"]
    words += ["--artifacts-destination", str(tmp_path / "artifacts")]
    with mlflow_server(words, tmp_path) as address:
        world = World(tmp_path / "store", address)
        world.tell_all()
        assert tracking.ship(world.store, world.run.id, address)
        assert not tracking.ship(world.store, world.run.id, address), "nothing is new"
        found = tracking.find_run(address, world.run.id)
        assert found.run.config == world.run.config
        assert found.steps["camvr/train"].outputs["model"] == world.reference("model", "camvr-train")
        client = MlflowClient(address)
        assert client.get_run(found.mlflow_id).info.status == "FINISHED"
        (child,) = client.search_runs(["1"], f"tags.`{names.TAG_PATH}` = 'camvr/train'")
        assert [m.step for m in client.get_metric_history(child.info.run_id, "loss")] == [1, 2, 3]
