"""What MLflow's pod does with its database before the server starts: it makes tables, and migrates no data unasked."""

import os
import sys
from pathlib import Path

import mlflow
import pytest
import sqlalchemy

from tests.fixtures.forked import Ended, run_forked
from tests.fixtures.overlays import pods
from tests.fixtures.servers import new_database

OLD = "c48cb773bb87"


def first_container(database: str, **variables: str) -> Ended:
    """Runs the init container's program on a database, with this environment's MLflow."""
    (pod,) = (pod for owner, pod in pods("overlays/kind") if owner["metadata"]["name"] == "mlflow")
    (container,) = pod["initContainers"]
    python, option, program, *words = container["command"]
    assert (python, option) == ("python", "-c")
    path = f"{os.environ['PATH']}:{Path(sys.executable).parent}"
    environment = {**os.environ, "PATH": path, "MLFLOW_BACKEND_STORE_URI": database, **variables}
    return run_forked(program, *words, environment=environment)


def schema(database: str) -> str:
    with sqlalchemy.create_engine(database).begin() as connection:
        return connection.execute(sqlalchemy.text("select version_num from alembic_version")).scalar_one()


@pytest.fixture
def older(tmp_path) -> str:
    """A database that says that it has the schema of another version."""
    database = new_database(tmp_path)
    with sqlalchemy.create_engine(database).begin() as connection:
        connection.execute(sqlalchemy.text(f"update alembic_version set version_num = '{OLD}'"))
    return database


@pytest.fixture
def called(tmp_path, monkeypatch) -> Path:
    """The file that is written once `mlflow` is called: what it would do takes half a minute."""
    program = tmp_path / "bin" / "mlflow"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho $* > {tmp_path}/called\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    return tmp_path / "called"


def test_an_empty_database_and_one_of_this_version_are_brought_up_to_date(tmp_path, called):
    for database in (f"sqlite:///{tmp_path}/empty.db", new_database(tmp_path)):
        done = first_container(database)
        assert (done.status, called.read_text()) == (0, f"db upgrade {database}\n"), done.errors


@pytest.mark.acceptance
def test_the_tables_of_an_empty_database_are_made_and_those_of_this_version_left(tmp_path):
    database = f"sqlite:///{tmp_path}/empty.db"
    for _ in range(2):
        done = first_container(database)
        assert done.status == 0, done.errors
    assert schema(database) == schema(new_database(tmp_path))


@pytest.mark.parametrize("asked", [{}, {"UPGRADE_SCHEMA_FOR": "2.0.0"}])
def test_a_database_with_data_of_another_version_is_not_migrated_unasked(older, asked):
    done = first_container(older, **asked)
    assert done.status == 1 and schema(older) == OLD
    (line,) = done.errors.splitlines()
    assert f"the database has schema {OLD} and MLflow {mlflow.__version__} needs" in line
    assert line.endswith(f"--containers schema UPGRADE_SCHEMA_FOR={mlflow.__version__}")


def test_it_is_asked_by_the_version(older, called):
    done = first_container(older, UPGRADE_SCHEMA_FOR=mlflow.__version__)
    assert done.status == 0, done.errors
    assert called.read_text() == f"db upgrade {older}\n"
