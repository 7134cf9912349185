"""Status of schedules: each cron against its latest run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from pipelines.kubeflow.client import ENDED, ApiObject, explained, filter_of
from pipelines.kubeflow.connection import Profile
from pipelines.kubeflow.recurring_runs import Entry
from pipelines.kubeflow.schedule_file import cron_times

if TYPE_CHECKING:
    from kfp.client import Client

GRACE = timedelta(minutes=10)
"""Delay after which a run that has not started is overdue."""


@dataclass(frozen=True)
class Status:
    """One line about a schedule."""

    name: str
    text: str
    overdue: bool = False


def read_statuses(client: Client, profile: Profile, entries: Iterable[Entry]) -> Iterator[Status]:
    """Yields the status of each recurring run. Raises InputError if Kubeflow refuses."""
    zone = ZoneInfo(profile.time_zone)
    now = datetime.now(zone)
    for entry in entries:
        with explained(profile):
            last = _latest_run(client, entry)
        yield status(entry, last, now)


def _latest_run(client: Client, entry: Entry) -> ApiObject | None:
    runs: ApiObject = client.list_runs(
        namespace=client.get_user_namespace() or None,
        filter=filter_of("recurring_run_id", entry.id),
        sort_by="created_at desc",
        page_size=1,
    )
    return next(iter(runs.runs or []), None)


def status(entry: Entry, last: ApiObject | None, now: datetime) -> Status:
    """Returns the status of a recurring run whose latest run is `last`, at a time in the zone of its cron.

    It is overdue if its next run was due more than `GRACE` ago and the latest one has ended; a run that is still active
    holds the next one back.
    """
    if not entry.enabled:
        return Status(entry.name, "disabled")
    began = last.created_at.astimezone(now.tzinfo) if last else None
    due = next(cron_times(entry.cron, began or entry.created.astimezone(now.tzinfo)))
    active = last is not None and last.state not in ENDED
    latest_run_line = (
        f"{(last.state or 'PENDING').lower()}, began {_shown(began)}" if last and began else "has not run yet"
    )
    if due > now - GRACE:
        return Status(entry.name, f"{latest_run_line}; next {_shown(due)}")
    if active:
        return Status(entry.name, f"{latest_run_line}; holds back the next, of {_shown(due)}")
    text = (
        f"overdue since {_shown(due)}; {latest_run_line}: does Kubeflow's scheduled workflow controller run?"
    )
    return Status(entry.name, text, overdue=True)


def _shown(time: datetime | None) -> str:
    return f"{time:%Y-%m-%d %H:%M %Z}" if time else ""
