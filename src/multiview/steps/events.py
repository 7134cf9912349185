"""The events of a step while it works: metrics and warnings in a file beside its output, and its progress in another.

`tracking` turns event files into MLflow runs; the screen of a run reads progress from them. A step waits for neither of them.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from multiview.artifacts.store import LocalStore, Store
from multiview.config import JsonObject
from multiview.errors import InputError, shortened

FLUSH_SECONDS = 10.0
PROGRESS_SECONDS = 0.5


class Events:
    """Receiver of a step's events while it works. This one discards them, as in all processes of a step but the first."""

    def metric(self, name: str, value: float, step: int | None = None) -> None:
        """Records a number, with its training step if there is one."""

    def warning(self, text: str) -> None:
        """Records one line that a person should see; the step continues."""

    def fact(self, name: str, value: object) -> None:
        """Records a small JSON value that the artifact's record keeps."""

    def progress(self, done: int, total: int, unit: str) -> None:
        """Records the progress of the step, such as 300 of 2,000 passages."""


class EventLog(Events):
    """The events of one attempt, appended to `<attempt>.events.jsonl` beside its output.

    A local file grows line by line; in a bucket the whole object is replaced every ten seconds.
    """

    def __init__(self, store: Store, attempt: str):
        """`attempt` is the attempt's folder, relative to the store."""
        self.store, self.attempt = store, attempt
        self.facts: JsonObject = {}
        self._lines: list[str] = []
        self._written, self._whole = 0, True
        self._flushed = self._progressed = time.monotonic()
        self._local = isinstance(store, LocalStore)

    def metric(self, name: str, value: float, step: int | None = None) -> None:
        self._append({"event": "metric", "name": name, "value": float(value), "step": step})

    def warning(self, text: str) -> None:
        self._append({"event": "warning", "text": shortened(text)})

    def fact(self, name: str, value: object) -> None:
        self.facts[name] = value

    def progress(self, done: int, total: int, unit: str) -> None:
        """Writes the progress, locally at most twice per second, in a bucket at most every ten seconds."""
        now = time.monotonic()
        if now - self._progressed >= (PROGRESS_SECONDS if self._local else FLUSH_SECONDS):
            self._progressed = now
            state = json.dumps({"done": done, "total": total, "unit": unit})
            with contextlib.suppress(Exception):  # a hiccup of the store must not end the work
                self.store.replace(progress_path(self.attempt), state.encode())

    def text(self) -> str:
        """Returns all events so far, as lines of JSON."""
        return "".join(self._lines)

    def resume(self, text: str) -> None:
        """Puts the events of an interrupted attempt before the events of this attempt."""
        self._lines = text.splitlines(keepends=True) + self._lines
        self.store.replace(events_path(self.attempt), self.text().encode())
        self._written = len(self._lines)

    def close(self) -> None:
        """Writes the remaining events. Raises what the store raises where it cannot take them."""
        self._flush()

    def _append(self, event: Mapping[str, object]) -> None:
        self._lines.append(json.dumps({"time": round(time.time() * 1000), **event}) + "\n")
        if self._local or time.monotonic() - self._flushed >= FLUSH_SECONDS:
            with contextlib.suppress(Exception):  # written with the next event
                self._flush()

    def _flush(self) -> None:
        new = "".join(self._lines[self._written :])
        if new and self._whole and isinstance(self.store, LocalStore):
            self._whole = False  # where this write breaks off, the next one replaces the file
            path = self.store.root / events_path(self.attempt)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.write(new)
        elif new:
            self.store.replace(events_path(self.attempt), self.text().encode())
        self._whole = True
        self._written = len(self._lines)
        self._flushed = time.monotonic()


def events_path(attempt: str) -> str:
    return f"{attempt}.events.jsonl"


def progress_path(attempt: str) -> str:
    return f"{attempt}.progress.json"


@dataclass(frozen=True)
class MetricEvent:
    """A number, with its training step if there is one."""

    time: int
    """Milliseconds since 1970."""
    name: str
    value: float
    step: int | None = None


@dataclass(frozen=True)
class WarningEvent:
    """One line that a person should see."""

    time: int
    text: str


Event = MetricEvent | WarningEvent

_EVENTS: dict[str, type[Event]] = {"metric": MetricEvent, "warning": WarningEvent}


def read_events(store: Store, attempt: str) -> Iterator[Event]:
    """Yields the events of an attempt so far; a line cut short by a kill is left out. Raises InputError for a line that
    is no event."""
    for number, line in enumerate((store.read(events_path(attempt)) or b"").splitlines(), 1):
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError):
            return
        try:
            kind = fields.pop("event")
            if kind == "fact":  # an earlier version wrote them here, too
                continue
            event = _EVENTS[kind](**fields)
        except (AttributeError, KeyError, TypeError):
            raise InputError(
                f"{store.url}/{events_path(attempt)} line {number} is no event: remove the line, or the file and with it the "
                "curves of this step"
            ) from None
        yield event


def read_metrics(store: Store, attempt: str) -> Iterator[MetricEvent]:
    """Returns the metrics of an attempt so far."""
    return (event for event in read_events(store, attempt) if isinstance(event, MetricEvent))
