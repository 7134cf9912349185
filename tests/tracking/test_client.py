"""What is said where MLflow cannot be used, in one line of plain words."""

import contextlib
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from multiview import tracking
from multiview.artifacts.store import LocalStore
from multiview.cli.app import app, run_app
from multiview.errors import InputError
from multiview.tracking.client import connect, explained
from tests.fixtures.reported_run import ReportedRun
from tests.fixtures.servers import new_database

CLASSES = ("Error(", "Error)", "HTTPConnectionPool", "sqlite3.", "sqlalchemy", "Traceback", "Exception")


def refused(words: list[str], capfd, monkeypatch) -> str:
    """The one line of a command that exits with status 2, and prints nothing else."""
    monkeypatch.setattr("sys.argv", ["multiview", *words])
    with pytest.raises(SystemExit) as ended:
        run_app(app)
    out, err = capfd.readouterr()
    assert (ended.value.code, out, err.count("\n")) == (2, "", 1), err
    assert not any(name in err for name in CLASSES), err
    return err


@pytest.fixture
def reported(tmp_path) -> ReportedRun:
    reported = ReportedRun(tmp_path / "store", "unused")
    reported.report_all()
    return reported


def test_a_server_that_is_away_is_one_line_of_plain_words(reported, capfd, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    words = ["sync", "--store", reported.store.url, "--tracking-uri", "http://127.0.0.1:9"]
    line = refused(words, capfd, monkeypatch)
    assert line.startswith(
        "error: MLflow at http://127.0.0.1:9 does not answer: start it or wait for it, or name"
    )


def test_a_database_that_only_reads_is_one_line(reported, tmp_path, capfd, monkeypatch):
    """SQLite itself refuses the writes: the file is opened for reading alone."""
    new_database(tmp_path)
    monkeypatch.chdir(tmp_path)  # MLflow makes a folder "file:" there
    uri = f"sqlite:///file:{tmp_path}/mlflow.db?mode=ro&uri=true"
    line = refused(["sync", "--store", reported.store.url, "--tracking-uri", uri], capfd, monkeypatch)
    assert (
        f"{tmp_path}/mlflow.db" in line and "cannot be written to: name another with --tracking-uri" in line
    )
    assert (Path(reported.store.url) / "runs").is_dir()


def test_a_file_that_cannot_be_opened_for_writing_is_refused_before_mlflow_tries(tmp_path, monkeypatch):
    uri = new_database(tmp_path)
    real = Path.open

    def refuse(path: Path, mode: str = "r", *words: object, **named: object):
        if mode == "r+b":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, mode, *words, **named)  # pyright: ignore

    monkeypatch.setattr(Path, "open", refuse)  # root may write to any file
    with pytest.raises(
        InputError, match=r"mlflow\.db cannot be written to \(Permission denied\): name another"
    ):
        connect(uri)
    connect(uri, writes=False)


@pytest.mark.parametrize("writes", [True, False])
def test_a_file_that_is_no_database_is_refused_before_mlflow_tries(tmp_path, writes):
    (tmp_path / "mlflow.db").write_text("much" * 1000)
    with pytest.raises(InputError, match=r"^MLflow's database \S+mlflow\.db is no SQLite file: move it away"):
        connect(f"sqlite:///{tmp_path}/mlflow.db", writes)


def test_a_damaged_database_is_one_line(reported, tmp_path):
    uri = new_database(tmp_path)
    file = tmp_path / "mlflow.db"
    whole = file.read_bytes()
    file.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    with pytest.raises(sqlite3.DatabaseError), sqlite3.connect(file) as database:
        database.execute("pragma integrity_check; ").fetchall()
        database.execute("select * from experiments").fetchall()
    with pytest.raises(InputError) as error:
        tracking.ship(reported.store, reported.run.id, uri)
    line = str(error.value)
    assert line.startswith(f"MLflow's database {file} ") and not any(name in line for name in CLASSES), line


def test_what_mlflow_says_of_a_request_stays(tmp_path):
    uri = new_database(tmp_path)
    with pytest.raises(InputError, match=f"^MLflow at {uri}: .*nobody"), explained(uri):
        connect(uri, writes=False).get_registered_model("nobody")


def test_a_database_in_a_folder_that_mlflow_would_read_as_another_is_refused(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    folder = tmp_path / "a%20b"
    with pytest.raises(
        InputError, match=rf"^MLflow's database cannot lie in {folder}, whose path holds %: name"
    ):
        tracking.tracking_uri(LocalStore(folder))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mlflow")
    assert tracking.tracking_uri(LocalStore(folder)) == "http://mlflow"


@pytest.mark.parametrize("table", ["_alembic_tmp_endpoints", "endpoints"])
def test_a_database_that_a_full_disk_left_half_made_is_named_with_the_way_out(tmp_path, table):
    with contextlib.closing(sqlite3.connect(tmp_path / "mlflow.db")) as half_made:
        half_made.execute(f"create table {table} (id integer)")
        half_made.commit()
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    line = r"mlflow\.db is half made, as by a stopped run or a full disk: move it away, and multiview sync writes it anew$"
    with pytest.raises(InputError, match=line), explained(uri):
        connect(uri).search_experiments()


def test_mlflow_sends_no_telemetry_unless_it_is_told_to(tmp_path):
    """Its thread deletes a variable of the process, over which a request that reads all variables then fails."""
    asked = "import os; from multiview.tracking.client import connect; connect({!r}); print(os.environ['MLFLOW_DISABLE_TELEMETRY'])"
    command = [sys.executable, "-c", asked.format(f"sqlite:///{tmp_path}/mlflow.db")]
    for given, found in (({}, "true"), ({"MLFLOW_DISABLE_TELEMETRY": "false"}, "false")):
        rest = {name: value for name, value in os.environ.items() if name != "MLFLOW_DISABLE_TELEMETRY"}
        assert subprocess.check_output(command, env={**rest, **given}, text=True).strip() == found
