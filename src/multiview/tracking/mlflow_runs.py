"""MLflow runs: how they are identified, found, filled and ended."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from multiview import names
from multiview.artifacts.local_store import sync, sync_all
from multiview.config import JsonObject, text_sha256
from multiview.config.overrides import flatten
from multiview.steps.events import MetricEvent
from multiview.steps.runs import StepState

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run as MlflowRun
    from mlflow.store.entities import PagedList

PARENT_RUN = "mlflow.parentRunId"
NOTE = "mlflow.note.content"
"""The tag of an MLflow run's, model's or experiment's description."""
TAG_CHARACTERS = 8000
"""Most characters of a tag's value."""

IDENTITY = (
    names.TAG_RUN, names.TAG_STORE, PARENT_RUN, names.TAG_PATH, names.TAG_ATTEMPT, names.TAG_LEVEL, names.TAG_SYSTEM,
)  # fmt: skip
"""Tags that together identify an MLflow run."""

Tags: TypeAlias = dict[str, str | None]
"""Values by tag; a tag without a value is not set."""

Item = TypeVar("Item")


def identity(tags: Tags) -> str:
    """Returns an MLflow filter for the run that these tags identify."""
    return " and ".join(condition(tag, value) for tag in IDENTITY if (value := tags.get(tag)))


def condition(tag: str, value: str) -> str:
    """Returns an MLflow filter for runs whose tag has this value."""
    quote = '"' if "'" in value else "'"
    return f"tags.`{tag}` = {quote}{value}{quote}"


def find_mlflow_run(client: MlflowClient, id_: str) -> MlflowRun | None:
    """Returns the run of MLflow with an id, perhaps a deleted one; None if there is none."""
    from mlflow.exceptions import MlflowException

    try:
        return client.get_run(id_)
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return None


def runs_below(client: MlflowClient, experiment: str, run: str, parent: str) -> list[MlflowRun]:
    """Returns the MLflow runs of all systems and steps of `run` below `parent`, the whole run's; its children first."""
    search = partial(client.search_runs, [experiment], condition(names.TAG_RUN, run), max_results=1000)
    found = list(every_page(search))
    children = [each for each in found if each.data.tags.get(PARENT_RUN) == parent]
    ids = {child.info.run_id for child in children}
    return children + [each for each in found if each.data.tags.get(PARENT_RUN) in ids]


def fill(
    client: MlflowClient,
    run: MlflowRun,
    parameters: Mapping[str, str] | None = None,
    metrics: Iterable[MetricEvent] = (),
    tags: Tags | None = None,
    **link: str,
) -> None:
    """Logs what an MLflow run does not have yet: parameters, then all metrics (see `log_metrics`), then tags.

    The error tag is deleted once the error is gone. Values are cut to the length that MLflow takes.
    """
    from mlflow.entities import Param, RunTag

    run_id, known, tags = run.info.run_id, run.data, tags or {}
    params = [Param(n, value[:6000]) for n, value in (parameters or {}).items() if n not in known.params]
    changed = [
        RunTag(n, v[:TAG_CHARACTERS])
        for n, v in tags.items()
        if v and known.tags.get(n) != v[:TAG_CHARACTERS]
    ]
    client.log_batch(run_id, params=params)
    log_metrics(client, run_id, metrics, **link)
    client.log_batch(run_id, tags=changed)
    if names.TAG_ERROR in known.tags and tags.get(names.TAG_ERROR, "kept") is None:
        client.delete_tag(run_id, names.TAG_ERROR)


def log_metrics(client: MlflowClient, run_id: str, metrics: Iterable[MetricEvent], **link: str) -> None:
    """Logs metrics, linked to the model and the dataset that `link` names; MLflow drops exact duplicates."""
    from mlflow.entities import Metric

    logged = [Metric(accepted(m.name), m.value, m.time, m.step or 0, **link) for m in metrics]
    client.log_batch(run_id, metrics=logged)


def status_of(states: Iterable[StepState], paths: Iterable[str], ended: str | None = None) -> str:
    """Returns the MLflow status of a run whose steps have these paths; `ended`, if given, in place of RUNNING."""
    known = {state.path: state.status for state in states}
    statuses = {known.get(path, "") for path in paths}
    if "failed" in statuses:
        return "FAILED"
    if "killed" in statuses:
        return "KILLED"
    return "FINISHED" if statuses <= {"done", "found"} else ended or "RUNNING"


def set_status(client: MlflowClient, run: MlflowRun, status: str, ended: float) -> None:
    """Sets a run's status if it has another; any but RUNNING ends the run, at the time `ended` in seconds."""
    if run.info.status != status and status == "RUNNING":
        client.update_run(run.info.run_id, status=status)
    elif run.info.status != status:
        client.set_terminated(run.info.run_id, status, round(ended * 1000))


def settle_files(run: MlflowRun) -> None:
    """Syncs a run's files to disk if they are in a local folder, which MLflow does not do."""
    folder = Path(str(run.info.artifact_uri))
    if folder.is_dir():
        sync_all(folder)
        for each in folder.parents[:3]:  # of the run, of the experiment, and the one above
            sync(each)


def set_description(client: MlflowClient, run: MlflowRun, note: str) -> None:
    """Sets a run's description, unless a person has written another."""
    current, note = run.data.tags.get(NOTE, ""), note[:TAG_CHARACTERS]
    if not current or run.data.tags.get(names.TAG_NOTED) == short_digest(current):
        fill(client, run, tags={NOTE: note, names.TAG_NOTED: short_digest(note)})


def short_digest(text: str) -> str:
    """Returns 16 hexadecimal digits of the sha256 of a text."""
    return text_sha256(text)[:16]


def parameters(config: JsonObject) -> dict[str, str]:
    """Returns settings as MLflow's parameters: texts by dotted names."""
    return {accepted(n): v if isinstance(v, str) else json.dumps(v) for n, v in flatten(config)}


def accepted(name: str) -> str:
    """Returns a name that MLflow accepts for a parameter or a metric. A name that it would refuse, for its characters,
    for its length or as a path, is mended and gets its digest as an ending, so that two names never become one."""
    parts = re.sub(r"^\.|[^/\w.\- :]", "_", name).split("/")
    mended = "/".join(part if part.strip(".") else "_" for part in parts)
    return name if name == mended[:250] else f"{mended[:233]}-{short_digest(name)}"


def every_page(search: Callable[..., PagedList[Item]]) -> Iterator[Item]:
    """Yields all results of one of MLflow's searches, which returns them by page."""
    page = search()
    yield from page
    while page.token:
        page = search(page_token=page.token)
        yield from page
