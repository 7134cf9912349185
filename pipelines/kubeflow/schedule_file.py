"""A file of schedules: which pipeline runs when, with which settings."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field, field_validator

from multiview.config import Section
from multiview.config.documents import read_document
from multiview.config.overrides import Overrides
from multiview.errors import counted

MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
FIELDS: tuple[tuple[str, int, int, list[str]], ...] = (
    ("second", 0, 59, []),
    ("minute", 0, 59, []),
    ("hour", 0, 23, []),
    ("day of month", 1, 31, []),
    ("month", 1, 12, MONTHS),
    ("day of week", 0, 6, DAYS),
)
"""The fields of a cron in order: name, least value, greatest value, names of the values from the least on."""


def check_cron(cron: str) -> str:
    """Returns a cron of six fields, as Kubeflow reads it. Raises ValueError.

    Kubeflow also accepts five fields, but reads them as second to month: `0 3 * * 1` would run in each hour of January.
    """
    fields = cron.split()
    if len(fields) == 5:
        raise ValueError(
            f"{cron!r} has five fields, and Kubeflow's first is the second: write '0 {' '.join(fields)}'"
        )
    if len(fields) != len(FIELDS):
        raise ValueError(
            f"{cron!r} has {counted(len(fields), 'field')}; there are six: {', '.join(f[0] for f in FIELDS)}"
        )
    for field, (name, least, greatest, words) in zip(fields, FIELDS, strict=True):
        for part in field.split(","):
            _check_part(part, name, least, greatest, words)
    return " ".join(fields)


def _check_part(part: str, name: str, least: int, greatest: int, words: list[str]) -> None:
    """Raises ValueError for a part of a field that is not *, ?, N or N-M, each perhaps with /STEP."""
    numbers = {word: str(value) for value, word in enumerate(words, least)}
    numeric = re.sub(r"[A-Z]+", lambda word: numbers.get(word[0], word[0]), part.upper())
    match = re.fullmatch(r"(?:[*?]|(\d+)(?:-(\d+))?)(?:/([1-9]\d*))?", numeric)
    ends = [int(end) for end in match.groups()[:2] if end] if match else []
    if not match or any(not least <= end <= greatest for end in ends) or ends != sorted(ends):
        raise ValueError(f"{part!r} is no {name}: from {least} to {greatest}, with * , - and /")


def _check_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, OSError, ValueError) as error:
        raise ValueError(f"there is no time zone {name!r}; it is named as in Europe/Berlin or UTC") from error
    return name


class Schedule(Section):
    """A schedule: at most one run is active, and missed runs are skipped."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,60}[a-z0-9])?$")]
    """Its name in Kubeflow: lowercase letters, digits and -."""
    pipeline: str
    """The pipeline that it runs."""
    preset: str | None = None
    """A preset's name, or a YAML file."""
    settings: Overrides = {}
    """Settings by section, over those of the preset."""
    cron: Annotated[str, AfterValidator(check_cron)]
    """When: second, minute, hour, day of month, month, day of week."""
    time_zone: Annotated[str, AfterValidator(_check_zone)] = "UTC"
    """The zone that `cron` is written in. Kubeflow has one for all crons (`--time-zone`); another is refused."""
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
        twice = [name for name, count in counts.items() if count > 1]
        if twice:
            raise ValueError(f"{twice[0]} is there twice: give each schedule a name of its own")
        return schedules


def read_schedules(path: Path) -> Schedules:
    """Reads a file of schedules. Raises InputError if it cannot be read, or with its first wrong value."""
    return read_document(path, "schedules").checked(Schedules, owner=path.stem)
