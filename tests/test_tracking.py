"""Shipping to a real MLflow store: whatever is interrupted or repeated, MLflow ends up the same."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from mlflow import MlflowClient

from multiview import names, tracking
from multiview.artifacts.attempt import Attempt
from multiview.artifacts.record import Reference
from multiview.artifacts.store import LocalStore
from multiview.errors import InputError
from multiview.events import EventLog
from multiview.runs import Run, StepState, write_run, write_state
from multiview.tracking import contents, shipping
from tests.servers import mlflow_server, new_database
from tests.test_registry import tell_index


class World:
    """A run whose steps are only told of, in a store of its own."""

    def __init__(self, folder: Path, uri: str, run: str = "training-1"):
        self.store, self.uri = LocalStore(folder), uri
        self.run = Run(
            id=run,
            pipeline="training",
            config={"train": {"epochs": 2}},
            steps=["split", "camvr/round-2/train", "camvr/round-2/evaluate"],
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
            log.metric("grad_norm", 1.0, number + 1)
        if step == "evaluate":
            log.metric("accuracy_at_5", 0.75)
            log.metric("view_1/accuracy_at_5", 0.5)
        outputs = (
            {} if status in ("failed", "running") else {kind: self.reference(kind, path.replace("/", "-"))}
        )
        inputs = {"passages": [self.reference("passages", "split")]} if step != "split" else {}
        if step == "evaluate":
            inputs |= {
                "model": [self.reference("model", "camvr-round-2-train")],
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
        self.tell("camvr/round-2/train", "t", losses=3)
        self.tell("camvr/round-2/evaluate", "e")

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
                names.TAG_NOTED,
            )
            text = {k: v.replace(self.store.url, "") for k, v in run.data.tags.items() if k not in own}
            text |= {k: text[k].replace(self.run.id, "RUN") for k in ("mlflow.note.content",) if k in text}
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
    return new_database(tmp_path_factory.mktemp("mlflow"))


@pytest.fixture(scope="module")
def expected(tmp_path_factory, uri) -> dict:
    """What MLflow holds after one uninterrupted shipping."""
    world = World(tmp_path_factory.mktemp("expected"), uri, "expected")
    world.tell_all()
    assert tracking.ship(world.store, world.run.id, uri)
    return world.seen()


def test_a_run_is_a_parent_and_each_step_a_child(expected):
    assert set(expected) == {"", "split", "camvr/round-2/train", "camvr/round-2/evaluate"}
    status, tags, params, metrics, _, _, _, files = expected[""]
    assert (status, params, files) == ("FINISHED", {"train.epochs": "2"}, ["run.json"])
    assert tags["architecture"] == "camvr"
    assert metrics == {"accuracy_at_5": [(0, 0.75)], "loss": [(0, pytest.approx(1 / 3))]}
    status, tags, params, metrics, datasets, inputs, outputs, _ = expected["camvr/round-2/train"]
    assert metrics["loss"] == [(1, 1.0), (2, 0.5), (3, pytest.approx(1 / 3))]
    assert params == {"encode.compute": "float32"}
    assert (status, tags["architecture"], tags["system"]) == ("FINISHED", "camvr", "camvr")
    assert (len(datasets), inputs, outputs) == (1, 0, 1)
    assert expected["camvr/round-2/evaluate"][5] == 1


def metrics_of_model(uri: str, world: World) -> list[Any]:
    """The metrics of the logged model of the world's training, as MLflow has them now."""
    reference = world.reference("model", "camvr-round-2-train")
    client = MlflowClient(uri)
    (found,) = client.search_logged_models(["1"], f"tags.sha256 = '{reference.digest}'")
    return client.get_logged_model(found.model_id).metrics or []


def test_a_model_has_the_metrics_of_each_evaluation_once(tmp_path):
    uri = new_database(tmp_path)
    for run in ("first", "again"):  # whose steps were all there, and MLflow new
        world = World(tmp_path / "store", uri, run)
        world.tell("split", "s")
        world.tell("camvr/round-2/train", "t", status="found")
        world.tell("camvr/round-2/evaluate", "e", status="found")
        tracking.ship(world.store, run, uri)
        told = metrics_of_model(uri, world)
        assert {metric.key: metric.value for metric in told} == {
            "accuracy_at_5": 0.75,
            "view_1/accuracy_at_5": 0.5,
        }
        (digest,) = {metric.dataset_digest for metric in told}
        assert world.reference("dev_questions", "split").digest.startswith(digest)
        (run_id,) = {metric.run_id for metric in told}
        assert MlflowClient(uri).get_run(run_id).data.tags["multiview.run"] == "first"
        assert world.seen()["camvr/round-2/evaluate"][1]["corpus"] == "@passages", "by its digest"


def test_a_logged_model_leads_to_its_artifact(expected, uri, tmp_path):
    world = World(tmp_path, uri, "expected")
    model = MlflowClient(uri).search_logged_models(["1"])[0]
    reference = tracking.logged_model(uri, model.model_id)
    assert reference.digest == world.reference("model", "camvr-round-2-train").digest
    assert tracking.logged_model(uri, f"models:/{model.model_id}") == reference
    with pytest.raises(InputError, match="is no logged model's id"):
        tracking.logged_model(uri, "camvr")


def test_the_commit_and_the_image_are_those_that_made_it(tmp_path, uri):
    """Of a step that found its output, its record's; of one that is running, its own."""
    world = World(tmp_path, uri, "commit")
    for path, made in (("split", {"git_sha": "made", "image": "i@1"}), ("camvr/round-2/train", {})):
        kind = "passages" if path == "split" else "model"
        attempt = Attempt(world.store, kind, path.replace("/", "-"), "a")
        attempt.publish(step=path, step_version=0, config={}, inputs={}, environment=made)
    world.tell("split", "a", status="found", git_sha="found", image="i@2")
    world.tell("camvr/round-2/train", "a", git_sha="own", image="i@2")
    world.tell("camvr/round-2/evaluate", "e", status="running", git_sha="own", image="i@3")
    tracking.ship(world.store, world.run.id, uri)
    tags = {path: tags for path, (_, tags, *_) in world.seen().items()}
    assert (tags["split"]["git_sha"], tags["split"]["image"]) == ("made", "i@1")
    assert (tags["camvr/round-2/train"]["git_sha"], tags["camvr/round-2/train"]["image"]) == ("own", "i@2")
    assert tags["camvr/round-2/evaluate"]["image"] == "i@3"
    assert tags[""]["image"] == "i@2 i@3"


def test_a_description_that_a_person_wrote_is_left_alone(tmp_path, uri):
    world = World(tmp_path, uri, "person")
    world.tell_all()
    tracking.ship(world.store, world.run.id, uri)
    client, parent = MlflowClient(uri), tracking.find_run(uri, world.run.id).mlflow_id
    note = client.get_run(parent).data.tags["mlflow.note.content"]
    assert note.startswith("training of camvr over @passages") and f"multiview lineage {world.run.id}" in note
    client.set_tag(parent, "mlflow.note.content", "the good one")
    world.tell("camvr/round-2/evaluate", "later", status="failed", error="no disk")
    tracking.ship(world.store, world.run.id, uri)
    assert client.get_run(parent).data.tags["mlflow.note.content"] == "the good one"


def test_a_run_that_failed_says_where(tmp_path, uri):
    world = World(tmp_path, uri, "failing")
    world.tell("split", "s")
    world.tell("camvr/round-2/train", "t", status="failed", error="no memory")
    tracking.ship(world.store, world.run.id, uri)
    assert "- camvr/round-2/train: no memory" in world.seen()[""][1]["mlflow.note.content"]
    world.tell_all()
    tracking.ship(world.store, world.run.id, uri)
    assert "no memory" not in world.seen()[""][1]["mlflow.note.content"]


def test_a_parent_s_metrics_are_by_round_where_there_are_several():
    steps = ["camvr/round-1/train", "camvr/round-2/train", "camvr/round-2/evaluate", "mvr/round-1/train"]
    assert [contents.round_of(step, steps) for step in steps] == [1, 2, 0, 0]
    assert contents.round_of("bm25/evaluate", steps) == 0


def test_files_of_the_same_name_in_two_folders_are_both_kept(tmp_path, monkeypatch):
    paths = ["metrics.json", "analyses/metrics.json", "analyses/usage.parquet"]
    record = SimpleNamespace(files=[SimpleNamespace(path=path) for path in paths], to_json=lambda: b"{}")
    monkeypatch.setattr(contents, "read_record", lambda *key: record)
    monkeypatch.setattr(contents, "stage", lambda *record: SimpleNamespace(path=tmp_path))
    client, world = Mock(), World(tmp_path, "", "files")
    child = SimpleNamespace(info=SimpleNamespace(run_id="child"), data=SimpleNamespace(tags={}))
    state = SimpleNamespace(outputs={"evaluation": world.reference("evaluation", "key")})
    contents.Contents(world.store, world.run, client, "0", None).tell_files("parent", child, state)  # type: ignore[arg-type]
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
    contents.Contents(world.store, world.run, client, "0", None).tell_files("parent", child, state)  # type: ignore[arg-type]
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
    world.tell("camvr/round-2/train", "first", losses=2, status="failed", error="no memory")
    tracking.ship(world.store, world.run.id, uri)
    seen = world.seen()
    assert (seen[""][0], seen["camvr/round-2/train"][0]) == ("FAILED", "FAILED")
    assert seen["camvr/round-2/train"][1]["error"] == "no memory"
    world.tell_all()
    tracking.ship(world.store, world.run.id, uri)
    assert world.seen() == expected


def test_a_step_is_shipped_while_it_runs(tmp_path, uri, expected):
    world = World(tmp_path, uri, "live")
    world.tell("split", "s")
    world.tell("camvr/round-2/train", "t", losses=1, status="running")
    tracking.ship(world.store, world.run.id, uri)
    assert world.seen()["camvr/round-2/train"][0] == "RUNNING"
    log = EventLog(world.store, "model/camvr-round-2-train/attempts/t")
    for step in (2, 3):
        log.metric("loss", 1 / step, step)
        log.metric("grad_norm", 1.0, step)
    world.tell("camvr/round-2/train", "t")
    world.tell("camvr/round-2/evaluate", "e")
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
    uri = new_database(tmp_path)
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
    words = ["server", "--backend-store-uri", new_database(tmp_path)]
    words += ["--artifacts-destination", str(tmp_path / "artifacts")]
    with mlflow_server(words, tmp_path) as address:
        world = World(tmp_path / "store", address)
        world.tell_all()
        assert tracking.ship(world.store, world.run.id, address)
        assert not tracking.ship(world.store, world.run.id, address), "nothing is new"
        found = tracking.find_run(address, world.run.id)
        assert found.run.config == world.run.config
        assert found.steps["camvr/round-2/train"].outputs["model"] == world.reference(
            "model", "camvr-round-2-train"
        )
        client = MlflowClient(address)
        assert client.get_run(found.mlflow_id).info.status == "FINISHED"
        (child,) = client.search_runs(["1"], f"tags.`{names.TAG_PATH}` = 'camvr/round-2/train'")
        assert [m.step for m in client.get_metric_history(child.info.run_id, "loss")] == [1, 2, 3]
        # A server takes no folder of its own machine for a version's source.
        index = tell_index(LocalStore(tmp_path / "store"), "of-index")
        tracking.ship(world.store, "of-index", address)
        assert tracking.register(address, index, "served", ["champion"]) == "1"
        assert tracking.registered_index(address, "models:/served@champion") == index.address
