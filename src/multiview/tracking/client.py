"""Access to an MLflow server or database."""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from multiview import environment
from multiview.artifacts.store import LocalStore, Store
from multiview.errors import InputError

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

RUN_FILE = "run.json"
"""The MLflow artifact of a parent run that holds its description."""

_SQLITE_FILE = re.compile(r"sqlite(\+\w+)?:///(?P<file>(?!:memory:)[^?]+)(\?.*)?")

# A server that is down must not block a driver for minutes; `multiview sync` ships later.
PATIENCE = {
    environment.MLFLOW_RETRIES: "2",
    environment.MLFLOW_TIMEOUT: "20",
    environment.MLFLOW_PROGRESS_BAR: "false",
}


def tracking_uri(store: Store) -> str:
    """Returns `MLFLOW_TRACKING_URI`, else the URI of an SQLite file in a local store or in the current folder."""
    if uri := os.environ.get(environment.MLFLOW_TRACKING_URI):
        return uri
    folder = store.root if isinstance(store, LocalStore) else Path.cwd()
    return f"sqlite:///{folder}/mlflow.db"


def connect(uri: str) -> MlflowClient:
    """Returns an MLflow client that logs errors only."""
    for name, value in PATIENCE.items():
        os.environ.setdefault(name, value)
    from mlflow import MlflowClient

    for chatty in ("alembic", "mlflow"):
        logging.getLogger(chatty).setLevel(logging.ERROR)
    return MlflowClient(uri)


def connect_to_read(uri: str) -> MlflowClient:
    """Returns an MLflow client as `connect` does. Raises InputError for an SQLite file that is missing, which MLflow
    would create."""
    if database(uri) == "absent":
        raise InputError(f"there is no MLflow database at {uri}: give --tracking-uri or --store")
    return connect(uri)


@contextlib.contextmanager
def explained(uri: str) -> Iterator[None]:
    """Raises the errors of MLflow and its libraries within the block as InputErrors of one line."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(("mlflow", "sqlalchemy", "requests", "urllib3")):
            raise
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"MLflow at {uri}: {line}") from error


def database(uri: str) -> str:
    """Returns the inode of the SQLite file that a URI names, so that a new file is not mistaken for an earlier one.

    "absent" where there is no such file, and empty for other kinds of URI.
    """
    if not (match := _SQLITE_FILE.fullmatch(uri)):
        return ""
    with contextlib.suppress(OSError):
        return str(Path(match["file"]).stat().st_ino)
    return "absent"


def children_of(client: MlflowClient, experiment: str, parent: str) -> list[Run]:
    """Returns the MLflow runs of all steps of a pipeline's run."""
    children, token = [], None
    while True:
        page = client.search_runs(
            [experiment], f"tags.`mlflow.parentRunId` = '{parent}'", max_results=1000, page_token=token
        )
        children += page
        token = page.token
        if not token:
            return children
