"""Access to an MLflow server or database."""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from multiview import environment, names
from multiview.artifacts.local_store import sync
from multiview.artifacts.store import MORE_THAN_A_NAME, LocalStore, Store
from multiview.errors import InputError, repeats_header

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment

RUN_FILE = "run.json"
"""The MLflow artifact of a parent run that holds its description."""

SQLITE = b"SQLite format 3\0"
_SQLITE_FILE = re.compile(r"sqlite(\+\w+)?:///(?P<file>(?!:memory:)[^?]+)(\?.*)?")

NAME_ANOTHER = f"name another with --tracking-uri ({environment.MLFLOW_TRACKING_URI})"
"""The way out where an MLflow cannot be used."""

DATABASE = {
    "readonly database": f"cannot be written to: {NAME_ANOTHER}",
    "unable to open": f"cannot be opened, as without rights to its folder or on a full disk: {NAME_ANOTHER}",
    "not a database": "is no SQLite file: move it away, and multiview sync writes it anew",
    "malformed": "is damaged: move it away, and multiview sync writes it anew",
    "already exists": "is half made, as by a stopped run or a full disk: move it away, and multiview sync writes it anew",
    "locked": "is being written to by another process: wait, and try again",
    "disk is full": "is on a full disk: make room, then multiview sync",
}
"""Parts of databases' error messages, each with its meaning and the way out."""

# A server that is down must not block a driver for minutes; `multiview sync` ships later.
PATIENCE = {
    environment.MLFLOW_RETRIES: "2",
    environment.MLFLOW_TIMEOUT: "20",
    environment.MLFLOW_PROGRESS_BAR: "false",
    environment.MLFLOW_TELEMETRY: "true",  # its thread changes variables while requests read them, which then fail
}


class TrackingUnavailable(InputError):
    """MLflow does not answer, or its database cannot be used: the next request would fail too."""


def tracking_uri(store: Store) -> str:
    """Returns `MLFLOW_TRACKING_URI`, else the URI of an SQLite file in a local store or in the current folder.

    Raises InputError for a folder that MLflow would read as another one.
    """
    if uri := os.environ.get(environment.MLFLOW_TRACKING_URI):
        return uri
    folder = store.root if isinstance(store, LocalStore) else Path.cwd()
    if part := MORE_THAN_A_NAME.search(str(folder)):
        raise InputError(
            f"MLflow's database cannot lie in {folder}, whose path holds {part[0]}: {NAME_ANOTHER}"
        )
    return f"sqlite:///{folder}/mlflow.db"


def connect(uri: str, writes: bool = True) -> MlflowClient:
    """Returns an MLflow client. Raises InputError for an SQLite file that cannot be written to or, without `writes`,
    that is absent or cannot be read."""
    if not writes and database(uri) == "absent":
        raise InputError(f"there is no MLflow database at {uri}: give --tracking-uri or --store")
    _check_file(uri, writes)
    for name, value in PATIENCE.items():
        os.environ.setdefault(name, value)
    os.environ[environment.MLFLOW_QUIET] = "true"  # or it prints addresses, passwords included
    from mlflow import MlflowClient

    for chatty in ("alembic", "mlflow", "urllib3"):  # they also raise every error that they log
        logging.getLogger(chatty).setLevel(logging.CRITICAL)
    return MlflowClient(uri)


def _check_file(uri: str, writes: bool) -> None:
    """Raises TrackingUnavailable for an SQLite file that cannot be opened or is no database: MLflow would retry for
    minutes."""
    if not (match := _SQLITE_FILE.fullmatch(uri)):
        return
    try:
        with Path(match["file"]).open("r+b" if writes else "rb") as opened:
            beginning = opened.read(len(SQLITE))
    except FileNotFoundError:  # MLflow creates it
        return
    except OSError as error:
        how = "written to" if writes else "read"
        raise TrackingUnavailable(
            f"MLflow's database {match['file']} cannot be {how} ({error.strerror}): {NAME_ANOTHER}"
        ) from error
    if beginning and beginning != SQLITE:
        raise TrackingUnavailable(_about_database(uri, "file is not a database"))


def our_experiment(client: MlflowClient) -> Experiment | None:
    """Returns the experiment of all runs; None if nothing has run. Raises TrackingUnavailable if it was deleted."""
    found = client.get_experiment_by_name(names.EXPERIMENT)
    if found is not None and found.lifecycle_stage == "deleted":
        raise deleted("experiment", names.EXPERIMENT, found.experiment_id)
    return found


def instance(experiment: Experiment | None) -> str:
    """Returns what tells an MLflow server's experiment from that of a server set up anew at the same address."""
    return f"{experiment.experiment_id} {experiment.creation_time}" if experiment else ""


def deleted(kind: str, name: str, id_: str) -> TrackingUnavailable:
    """Returns the error about an experiment or a run that was deleted in MLflow, with the command that restores it."""
    line = f"MLflow's {kind} {name} is deleted; restore it: mlflow {kind}s restore --{kind}-id {id_}"
    return TrackingUnavailable(line)


@contextlib.contextmanager
def explained(uri: str) -> Iterator[None]:
    """Turns errors of MLflow and its libraries into InputErrors, or TrackingUnavailable if no request can succeed."""
    try:
        yield
    except Exception as error:
        library = type(error).__module__.partition(".")[0]
        if library == "configparser":  # its text repeats a line of the file
            raise TrackingUnavailable(
                f"MLflow at {uri}: ~/.mlflow/credentials cannot be read ({type(error).__name__}): "
                "it begins with [mlflow], and a % is written %%"
            ) from None
        if library not in ("mlflow", "sqlalchemy", "requests", "urllib3"):
            raise
        # The error about a refused header repeats the token.
        raise _in_plain_words(uri, error) from (None if repeats_header(error) else error)


def _in_plain_words(uri: str, error: BaseException) -> InputError:
    if type(error).__name__ == "UnsupportedModelRegistryStoreURIException":
        return TrackingUnavailable(f"MLflow at {uri}: it has no such kind of address; {NAME_ANOTHER}")
    cause: BaseException | None = error
    while cause is not None:  # MLflow's own error holds the text of the one below it
        library = type(cause).__module__.partition(".")[0]
        if library == "sqlalchemy" and type(cause).__name__ in ("DatabaseError", "OperationalError"):
            return TrackingUnavailable(_about_database(uri, str(getattr(cause, "orig", None) or cause)))
        if library in ("requests", "urllib3"):
            refused = re.search(r"too many (\d+) error responses", str(cause))
            problem = f"answers with error {refused[1]} alone" if refused else "does not answer"
            return TrackingUnavailable(
                f"MLflow at {uri} {problem}: start it or wait for it, or {NAME_ANOTHER}"
            )
        cause = cause.__cause__ or cause.__context__
    line = (str(error).strip().splitlines() or ["an error without a text"])[0]
    if status := re.search(r"failed with error code (\d+)", line):
        return InputError(
            f"MLflow at {uri} answers with error {status[1]}: is it MLflow, and are you let in?"
        )
    return InputError(f"MLflow at {uri}: {re.sub(r'^[A-Z_]+: ', '', line)}")


def _about_database(uri: str, reason: str) -> str:
    match = _SQLITE_FILE.fullmatch(uri)
    name = f"MLflow's database {match['file']}" if match else f"MLflow at {uri}"
    first = (reason.strip().splitlines() or ["no reason given"])[0]
    other = f"cannot be used ({first}): {NAME_ANOTHER}"
    return f"{name} {next((plain for part, plain in DATABASE.items() if part in reason), other)}"


def settle(uri: str) -> None:
    """Syncs an SQLite file's folder: its journal stays removed, and the last commit survives a loss of power."""
    if match := _SQLITE_FILE.fullmatch(uri):
        sync(Path(match["file"]).absolute().parent)


def database(uri: str) -> str:
    """Returns the inode of a URI's SQLite file, "absent" if there is no such file; an empty string for other URIs."""
    if not (match := _SQLITE_FILE.fullmatch(uri)):
        return ""
    try:
        return str(Path(match["file"]).stat().st_ino)
    except OSError:
        return "absent"
