"""Access to an MLflow server or database."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from multiview import environment, names
from multiview.artifacts.store import LocalStore, Store
from multiview.config import JsonObject
from multiview.errors import InputError

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

Item = TypeVar("Item")

PARENT_RUN = "mlflow.parentRunId"
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


def condition(tag: str, value: str) -> str:
    """Returns MLflow's filter for runs of which a tag has a value."""
    quote = '"' if "'" in value else "'"
    return f"tags.`{tag}` = {quote}{value}{quote}"


def runs_below(client: MlflowClient, experiment: str, run: str, parent: str) -> list[Run]:
    """Returns the MLflow runs of all systems and steps of a pipeline's run, systems first.

    `run` is the run's id, which a run of another store may have too, and `parent` the MLflow run of the whole run.
    """
    found, token = [], None
    while True:
        page = client.search_runs(
            [experiment], condition(names.TAG_RUN, run), max_results=1000, page_token=token
        )
        found += page
        token = page.token
        if not token:
            break
    children = [each for each in found if each.data.tags.get(PARENT_RUN) == parent]
    ids = {child.info.run_id for child in children}
    return children + [each for each in found if each.data.tags.get(PARENT_RUN) in ids]


def log_parameters(client: MlflowClient, run: str, parameters: Mapping[str, str]) -> None:
    """Logs parameters in batches that MLflow takes; it cuts no longer value by itself."""
    from mlflow.entities import Param

    for part in parts(list(parameters.items()), 100):
        client.log_batch(run, params=[Param(name, value[:6000]) for name, value in part])


def set_status(client: MlflowClient, run: Run, status: str, ended: float) -> None:
    """Sets the status of a run that has another; one that is not RUNNING ends the run, at a time in seconds."""
    if run.info.status == status:
        return
    if status == "RUNNING":
        client.update_run(run.info.run_id, status=status)
    else:
        client.set_terminated(run.info.run_id, status, round(ended * 1000))


def set_description(client: MlflowClient, run: Run, note: str) -> None:
    """Sets a run's description, unless a person has written another."""
    from mlflow.entities import RunTag
    from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE

    tags = run.data.tags
    current = tags.get(MLFLOW_RUN_NOTE, "")
    if current != note and (not current or tags.get(names.TAG_NOTED) == short_digest(current)):
        new_tags = {MLFLOW_RUN_NOTE: note, names.TAG_NOTED: short_digest(note)}
        client.log_batch(run.info.run_id, tags=[RunTag(tag, text) for tag, text in new_tags.items()])


def short_digest(text: str) -> str:
    """Returns 16 hexadecimal digits of the sha256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def flatten(config: JsonObject, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yields settings by their dotted names, as MLflow's parameters."""
    for name, value in config.items():
        if isinstance(value, dict) and value:
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value if isinstance(value, str) else json.dumps(value)


def parts(items: list[Item], size: int) -> Iterator[list[Item]]:
    """Yields consecutive parts of a list, of at most `size` items."""
    return (items[start : start + size] for start in range(0, len(items), size))
