"""Shipping to a real MLflow store: whatever is interrupted or repeated, MLflow ends up the same."""

import os
from pathlib import Path

import mlflow
import pytest
from mlflow import MlflowClient

from multiview import names, tracking
from multiview.artifacts.store import LocalStore
from multiview.errors import InputError
from multiview.steps.events import EventLog
from multiview.steps.runs import Run, StepState, write_run, write_state
from multiview.tracking import shipment, shipping
from tests.fixtures.forked import run_forked
from tests.fixtures.reported_run import ReportedRun
from tests.fixtures.servers import new_database


def test_shipping_again_says_that_there_is_nothing_new_and_a_run_that_is_opened_again_is_finished_again(
    tmp_path, uri, expected
):
    reported = ReportedRun(tmp_path, uri, "again")
    reported.report_all()
    assert tracking.ship(reported.store, reported.run.id, uri)
    assert not tracking.ship(reported.store, reported.run.id, uri)
    reported.store.remove("runs/again/mlflow/shipped")
    tracking.ship(reported.store, reported.run.id, uri, only=())
    assert reported.seen()[""][0] == "RUNNING"
    assert tracking.ship(reported.store, reported.run.id, uri)
    assert reported.seen() == expected


def test_a_store_that_was_moved_with_its_database_is_told(tmp_path):
    """MLflow's files have the addresses that they were written to."""
    before, after = tmp_path / "before", tmp_path / "after"
    tracking.ship((reported := ReportedRun(before, new_database(before))).store, "training-1", reported.uri)
    before.rename(after)
    with pytest.raises(InputError, match=rf"in {before}/mlflow, and that store is gone: if it was moved"):
        tracking.find_run(f"sqlite:///{after}/mlflow.db", "training-1")
    before.symlink_to(after)
    assert tracking.find_run(f"sqlite:///{after}/mlflow.db", "training-1").run.id == "training-1"


class Killed(Exception):
    pass


def test_a_shipper_killed_after_any_call_is_continued(tmp_path, uri, expected, monkeypatch):
    """After each third one here; tests/torture/test_mlflow_database.py is about each change of a file."""
    real = shipment.connect

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
    for left in range(1, 100, 3):
        reported = ReportedRun(tmp_path / str(left), uri, f"killed-{left}")
        reported.report_all()
        monkeypatch.setattr(shipment, "connect", lambda _, left=left: Fragile(left))
        killed = False
        try:
            tracking.ship(reported.store, reported.run.id, uri)
        except Killed:
            killed = True
        kills += killed
        monkeypatch.setattr(shipment, "connect", real)
        tracking.ship(reported.store, reported.run.id, uri)
        assert reported.seen() == expected, f"after {left} calls"
        if not killed:
            break
    assert kills > 7


def test_a_step_that_failed_and_then_succeeded_is_finished_in_mlflow(tmp_path, uri, expected):
    reported = ReportedRun(tmp_path, uri, "mended")
    reported.events("split", "s")
    reported.events("camvr/round-2/train", "first", losses=2, status="failed", error="no memory")
    tracking.ship(reported.store, reported.run.id, uri)
    seen = reported.seen()
    assert (seen[""][0], seen["camvr/round-2/train"][0]) == ("FAILED", "FAILED")
    assert seen["camvr/round-2/train"][1]["error"] == "no memory"
    assert "- camvr/round-2/train: no memory" in seen[""][1]["mlflow.note.content"]
    reported.report_all()
    tracking.ship(reported.store, reported.run.id, uri)
    assert reported.seen() == expected


def test_a_step_is_shipped_while_it_runs(tmp_path, uri, expected):
    reported = ReportedRun(tmp_path, uri, "live")
    reported.events("split", "s")
    reported.events("camvr/round-2/train", "t", losses=1, status="running")
    tracking.ship(reported.store, reported.run.id, uri)
    assert reported.seen()["camvr/round-2/train"][0] == "RUNNING"
    log = EventLog(reported.store, "model/camvr-round-2-train/attempts/t")
    for step in (2, 3):
        log.metric("loss", 1 / step, step)
        log.metric("grad_norm", 1.0, step)
    reported.events("camvr/round-2/train", "t")
    reported.events("camvr/round-2/evaluate", "e")
    tracking.ship(reported.store, reported.run.id, uri)
    assert reported.seen() == expected


def test_what_a_step_says_while_it_is_shipped_is_shipped_next(tmp_path, uri, monkeypatch):
    reported = ReportedRun(tmp_path, uri, "meanwhile")
    reported.events("camvr/round-2/train", "t", losses=1, status="running")
    log, log_data = EventLog(reported.store, "model/camvr-round-2-train/attempts/t"), shipping.log_data

    def later(*given):
        monkeypatch.setattr(shipping, "log_data", log_data)
        log.metric("loss", 0.5, 2)
        log_data(*given)

    monkeypatch.setattr(shipping, "log_data", later)
    for new in (True, True, False):
        assert tracking.ship(reported.store, reported.run.id, uri) == new
    client = MlflowClient(uri)
    experiments = [each.experiment_id for each in client.search_experiments()]
    found = client.search_runs(experiments, "tags.`multiview.path` = 'camvr/round-2/train'")
    run = next(run for run in found if run.data.tags["multiview.run"] == "meanwhile")
    assert [point.step for point in client.get_metric_history(run.info.run_id, "loss")] == [1, 2]


def test_two_stores_with_the_same_run_do_not_mix(tmp_path, uri):
    first, second = ReportedRun(tmp_path / "one", uri, "twin"), ReportedRun(tmp_path / "two", uri, "twin")
    for reported in (first, second):
        reported.report_all()
        tracking.ship(reported.store, reported.run.id, uri)
    for reported in (first, second):
        found = tracking.find_run(uri, "twin", reported.store.url)
        assert found.store == reported.store.url
        assert found.steps["split"].outputs["passages"] == reported.reference("passages", "split")
        assert tracking.find_run(uri, found.mlflow_id) == found
    with pytest.raises(InputError, match="several stores hold run twin"):
        tracking.find_run(uri, "twin")


def test_sync_goes_on_after_a_broken_run(tmp_path, uri):
    reported = ReportedRun(tmp_path, uri, "zz-fine")
    reported.report_all()
    reported.store.replace("runs/aa-broken/steps/split.json", b"{}")
    own = StepState(path="own", step="a-step-of-one-s-own", status="done", ended=1.0)
    write_run(reported.store, Run(id="bb-unknown", pipeline="training", config={}, steps=["own"]))
    write_state(reported.store, "bb-unknown", own)
    shipped, failed = tracking.sync(reported.store, uri)
    assert shipped == ["bb-unknown", "zz-fine"]
    assert list(failed) == ["aa-broken"]
    with pytest.raises(InputError, match="typo: there is nothing; is it the right one"):
        tracking.sync(LocalStore(tmp_path / "typo"), uri)
    (tmp_path / "other" / "folder").mkdir(parents=True)
    with pytest.raises(InputError, match="has no runs"):
        tracking.sync(LocalStore(tmp_path / "other"), uri)


def test_a_database_made_anew_is_filled_again(tmp_path):
    uri = new_database(tmp_path)
    reported = ReportedRun(tmp_path / "store", uri)
    reported.report_all()
    ship = "import sys; from multiview import tracking; from multiview.artifacts.store import open_store; "
    ship += "tracking.ship(open_store(sys.argv[1]), *sys.argv[2:])"
    # In a process of its own: MLflow keeps the database open.
    assert run_forked(ship, reported.store.url, reported.run.id, uri).status == 0
    (tmp_path / "mlflow.db").unlink()
    with pytest.raises(InputError, match="no MLflow database"):
        tracking.find_run(uri, reported.run.id)
    assert tracking.ship(reported.store, reported.run.id, uri)
    assert set(reported.seen()) == {"", "camvr", *reported.run.steps}


def test_a_server_set_up_anew_at_its_address_is_filled_again(tmp_path, monkeypatch):
    """As by http: nothing but the experiment tells the servers apart."""
    monkeypatch.setattr("multiview.tracking.shipping.database", lambda uri: "")
    uri = new_database(tmp_path)
    reported = ReportedRun(tmp_path / "store", uri)
    reported.report_all()
    assert tracking.sync(reported.store, uri)[0] and not tracking.sync(reported.store, uri)[0]
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name(names.EXPERIMENT)
    assert experiment is not None
    client.rename_experiment(experiment.experiment_id, "of the server before")
    assert tracking.sync(reported.store, uri)[0]
    assert set(reported.seen()) == {"", "camvr", *reported.run.steps}


def test_a_run_that_was_deleted_in_mlflow_says_how_to_go_on_and_one_that_is_gone_is_shipped_anew(
    tmp_path, uri
):
    reported = ReportedRun(tmp_path, uri, "tidied")
    reported.report_all()
    tracking.ship(reported.store, reported.run.id, uri)
    parent = tracking.find_run(uri, "tidied").mlflow_id
    client = MlflowClient(uri)
    client.delete_run(parent)
    with pytest.raises(
        InputError, match=f"run tidied is deleted; restore it: mlflow runs restore --run-id {parent}"
    ):
        tracking.ship(reported.store, reported.run.id, uri, only=())
    claims = [path for path in reported.store.files("runs/tidied/mlflow") if not path.endswith("shipped")]
    for path in claims:  # as after `mlflow gc`
        reported.store.replace(path, b"0" * 32)
    assert tracking.ship(reported.store, reported.run.id, uri, only=())
    assert tracking.find_run(uri, "tidied").mlflow_id != parent


@pytest.mark.parametrize("run", ["it's", "", "a b"])
def test_what_is_no_run_id_is_refused(run, uri):
    with pytest.raises(InputError, match="is no run id"):
        tracking.find_run(uri, run)


NAMES = ("USER", "LOGNAME", "LNAME", "USERNAME")
"""The variables that name a process's user, which Python asks first."""

NAMELESS = """
import os, sys
os.setresuid(54321, 0, 0)  # by name it is this user's process, and may still read this Python
from multiview.kubeflow.run import open_run
from multiview.steps.runs import Run
open_run(sys.argv[1], Run(id="nameless", pipeline="training", config={}, steps=["split"]).model_dump_json(), "job")
"""


CLOSED = any(not folder.stat().st_mode & 0o001 for folder in Path(mlflow.__file__).parents)
"""Whether this environment lies in a folder such as /root, where Alembic finds nothing for another user."""


@pytest.mark.skipif(
    os.getuid() != 0 or CLOSED, reason="only root can become a user who sees this environment"
)
def test_a_user_without_a_name_opens_a_run(tmp_path):
    """As OpenShift's users and KFP's default one are, in an image whose environment names none either."""
    uri = new_database(tmp_path)
    variables = {name: value for name, value in os.environ.items() if name not in NAMES}
    environment = {**variables, "MLFLOW_TRACKING_URI": uri}
    ended = run_forked(NAMELESS, str(tmp_path / "store"), environment=environment)
    assert ended.status == 0, ended.errors
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name(names.EXPERIMENT)
    assert experiment
    (run,) = client.search_runs([experiment.experiment_id], "tags.`multiview.run` = 'nameless'")
    assert run.data.tags["mlflow.user"] == "uid-54321"
