"""Schedules: the file that says which pipeline runs when and with which settings; and the status of each."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, Field, field_validator

from multiview.artifacts.champions import current
from multiview.config import Section
from multiview.config.documents import read_document
from multiview.config.overrides import Overrides
from multiview.errors import counted, without_secrets
from multiview.refresh.freshness import freshness
from pipelines.kubeflow.client import ApiObject, Client, explained, filter_of
from pipelines.kubeflow.connection import Profile, TimeZone
from pipelines.kubeflow.follow import reason
from pipelines.kubeflow.run_view import RunView, store_of
from pipelines.kubeflow.submission import readable

GRACE = timedelta(minutes=10)
"""Delay after which a run that has not started is overdue."""
CRON_FIELDS = "second, minute, hour, day of month, month, day of week"
CRON_RANGES = "seconds and minutes are 0 to 59, hours 0 to 23, days 1 to 31, months 1 to 12, days of the week 0 (SUN) to 6"
CRON_END = r"(?:\d+|[A-Z]{3})"
CRON_PART = re.compile(rf"(?:[*?]|{CRON_END}(?:-{CRON_END})?)(?:/\d+)?")
"""One comma-separated part of a cron field. Kubeflow reads no more than this; cronsim does."""


def cron_times(cron: str, after: datetime) -> CronSim:
    """Returns the times of a six-field cron after a time, which is in the cron's time zone. Raises CronSimError."""
    *others, day = cron.replace("?", "*").split()
    # cronsim's last day of the week is 7, Sunday again, so steps get an explicit end.
    days = ",".join(re.sub(r"^(\w+)/", r"\1-6/", part) for part in day.split(","))
    return CronSim(" ".join([*others, days]), after)


def check_cron(cron: str) -> str:
    """Returns a six-field cron in normal form. Raises ValueError for a wrong one, and for five fields, which Kubeflow
    reads as second to month: `0 3 * * 1` would run in each hour of January."""
    fields = cron.split()
    if len(fields) == 5:
        raise ValueError(
            f"{cron!r} has five fields, and Kubeflow's first is the second: write '0 {' '.join(fields)}'"
        )
    if len(fields) != 6:
        raise ValueError(f"{cron!r} has {counted(len(fields), 'field')}; there are six: {CRON_FIELDS}")
    parts = [part for field in fields for part in field.upper().split(",")]
    days = re.sub(r"/\d+", "", fields[5])
    try:
        if "7" in days or not all(map(CRON_PART.fullmatch, parts)):
            raise CronSimError("Bad day-of-week" if "7" in days else "Bad cron")
        cron_times(cron, datetime(2000, 1, 1))
    except CronSimError as error:
        raise ValueError(f"{cron!r}: {str(error).lower()}: {CRON_RANGES}") from error
    return " ".join(fields)


class Schedule(Section):
    """A schedule: at most one run is active, and missed runs are skipped."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,60}[a-z0-9])?$")]
    """Its name in Kubeflow: lowercase letters, digits and -."""
    pipeline: str
    """The pipeline that it runs."""
    preset: str | None = None
    """A preset's name, or a YAML file."""
    settings: Overrides = {}
    """Settings by section; they override the preset's."""
    cron: Annotated[str, AfterValidator(check_cron)]
    """When: second, minute, hour, day of month, month, day of week."""
    time_zone: TimeZone = "UTC"
    """The time zone that `cron` is written in. Kubeflow has one for all crons (`--time-zone`); others are refused."""
    store: str | None = None
    """Store of its runs; none: --store, MULTIVIEW_STORE, or the profile's."""
    enabled: bool = True
    """Whether it runs."""


class Schedules(Section):
    """A file of schedules."""

    owner: Annotated[str, Field(pattern=r"^[\w.-]+$")]
    """Marks the recurring runs of this file, so that another file's are left alone; default: the file's name."""
    schedules: tuple[Schedule, ...]
    """Its schedules."""

    @field_validator("schedules")
    @classmethod
    def _distinct(cls, schedules: tuple[Schedule, ...]) -> tuple[Schedule, ...]:
        counts = Counter(schedule.name for schedule in schedules)
        if twice := [name for name, count in counts.items() if count > 1]:
            raise ValueError(f"{twice[0]} is there twice: give each schedule a name of its own")
        return schedules


def read_schedules(path: Path) -> Schedules:
    """Reads a file of schedules. Raises InputError if it cannot be read, or with its first wrong value."""
    return read_document(path, "schedules").checked(Schedules, owner=path.stem)


@dataclass(frozen=True)
class Entry:
    """A recurring run of Kubeflow's."""

    id: str
    name: str
    cron: str
    enabled: bool
    owner: str | None
    """The owner of the schedule file that made it; None for a recurring run that is not ours."""
    digest: str | None
    created: datetime


class StatusLine(NamedTuple):
    """A line about a schedule, its latest run and its next time; `alarm`: it is overdue or failed, so look at it."""

    text: str
    alarm: bool = False
    store: str = ""
    """The store of its latest run."""


def read_statuses(
    client: Client, profile: Profile, entries: Iterable[Entry]
) -> Iterator[tuple[Entry, StatusLine]]:
    """Yields each recurring run with its status. Raises InputError if Kubeflow refuses."""
    now = datetime.now(ZoneInfo(profile.time_zone))
    for entry in entries:
        with explained(profile):
            runs: ApiObject = client.list_runs(
                namespace=client.get_user_namespace() or None,
                filter=filter_of("recurring_run_id", entry.id),
                sort_by="created_at desc",
                page_size=1,
            )
        last, why = next(iter(runs.runs or []), None), ""
        if last and (view := RunView(last)).unsuccessful and not view.cancelled:
            why = reason(profile, view, readable(store_of(last)))
        told = status(entry, last, now, why)
        yield entry, StatusLine(told.text, told.alarm, store_of(last) if last else "")


def corpora(stores: Iterable[str]) -> Iterator[StatusLine]:
    """Yields how old the champion's corpus is, for each store that has a champion; an alarm if it cannot be read."""
    for url in sorted({*stores} - {""}):
        if not (store := readable(url)):
            yield StatusLine(
                f"{without_secrets(url)}: cannot be read from here, so the age of its corpus is not known",
                True,
            )
        elif champion := current(store):
            fresh = freshness(store, champion)
            line = f"{store.url}: champion {champion.number}, {fresh.notice or fresh}"
            yield StatusLine(line, alarm=bool(fresh.notice))


def status(entry: Entry, last: ApiObject | None, now: datetime, why: str = "") -> StatusLine:
    """Returns the status of a recurring run whose latest run, `last`, failed because of `why`; `now` is in its cron's
    time zone. It is overdue if a run was due more than `GRACE` ago and the latest has ended; a run that is still
    active holds the next one back, and is an alarm once it has held back two."""
    if not entry.enabled:
        return StatusLine("disabled")
    began = last.created_at.astimezone(now.tzinfo) if last else None
    times = cron_times(entry.cron, began or entry.created.astimezone(now.tzinfo))
    due = next(times)
    latest = f"{RunView(last).word}, began {_shown(began)}" if last and began else "has not run yet"
    latest += f" ({why})" if why else ""
    # Two times of one zone would be compared by their clocks, which go back in autumn.
    late = now.astimezone(UTC) - GRACE
    if due > late:
        return StatusLine(f"{latest}; next {_shown(due)}", bool(why))
    if last and not RunView(last).ended:
        return StatusLine(f"{latest}; holds back the next, of {_shown(due)}", next(times) <= late)
    question = "does Kubeflow's scheduled workflow controller run?"
    return StatusLine(f"overdue since {_shown(due)}; {latest}: {question}", alarm=True)


def _shown(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M %Z}"
