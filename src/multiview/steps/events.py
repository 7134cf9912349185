"""The events of a step while it works: metrics and warnings in one file beside its output, its progress in another.

`tracking` turns event files into MLflow runs; displays of a run read the progress. A step waits for neither.
"""

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from types import SimpleNamespace

from multiview import metric_names
from multiview.artifacts.local_store import sync
from multiview.artifacts.store import LocalStore, Store
from multiview.config import JsonObject
from multiview.errors import InputError, shortened
from multiview.steps.background import repeated

FLUSH_SECONDS = 10.0
PROGRESS_SECONDS = 0.5
LINE_SECONDS = 30.0
"""Seconds between two lines about a working step."""
SHOWN = ("loss", "learning_rate", metric_names.of_validation(metric_names.MRR))
"""The metrics in these lines."""


@dataclass(frozen=True)
class Progress:
    """How far a step has come; `total` is 0 while that is unknown."""

    done: int = 0
    total: int = 0
    unit: str = ""
    line: str = ""
    """The last line about it, written every `LINE_SECONDS` while the step works."""
    time: float = 0.0
    """When that line was written, in seconds since 1970."""


class Events:
    """Receives a step's events while it works. This one discards them, as in all processes of a step but the first."""

    def metric(self, name: str, value: float, step: int | None = None) -> None:
        """Records a number, with its training step if there is one."""

    def warning(self, text: str) -> None:
        """Records one line that a person should see; the step continues."""

    def fact(self, **facts: object) -> None:
        """Records small JSON values, by name, that the artifact's record keeps."""

    def figures(self, **numbers: float) -> None:
        """Records numbers as facts and as metrics."""
        self.fact(**numbers)
        for name, number in numbers.items():
            self.metric(name, float(number))

    def progress(self, done: int, total: int, unit: str) -> None:
        """Records the progress of the step, such as 300 of 2,000 passages; a `total` of 0 stands for an unknown one."""


class EventLog(Events):
    """The events of one attempt, in `<attempt>.events.jsonl` beside its output. A local file grows line by line; in a
    bucket the whole object is replaced every `FLUSH_SECONDS`."""

    def __init__(self, store: Store, attempt: str, note: Callable[[str], None] = lambda text: None):
        """`attempt` is the attempt's folder, relative to the store; `note` writes a text into the step's log."""
        self.store, self.attempt, self._note = store, attempt, note
        self._metrics: dict[str, float] = {}
        self.facts: JsonObject = {}
        self._lines: list[str] = []
        self._written, self._whole = 0, True
        self._flushed = time.monotonic()
        self._told = self._progress = Progress(time=time.time())
        self._last_line, self._last_line_time = "", self._told.time
        self._local = isinstance(store, LocalStore)
        self.begin("beginning")

    def begin(self, phase: str) -> None:
        """Begins a phase of the step; the log's lines name it until the step reports progress."""
        self._phase, self._since, self._first = phase, time.monotonic(), 0
        self._progress = replace(self._progress, done=0, total=0, unit="")

    def lines(self) -> contextlib.AbstractContextManager[None]:
        """While the block runs, keeps the step's progress written, and logs a line every `LINE_SECONDS`."""
        pause = PROGRESS_SECONDS if self._local else FLUSH_SECONDS
        return repeated(self._tell, pause, patience=FLUSH_SECONDS)

    def metric(self, name: str, value: float, step: int | None = None) -> None:
        self._metrics[name] = float(value)
        self._append({"event": "metric", "name": name, "value": float(value), "step": step})

    def warning(self, text: str) -> None:
        self._append({"event": "warning", "text": shortened(text)})
        self._note(f"warning: {shortened(text)}")

    def fact(self, **facts: object) -> None:
        self.facts |= facts

    def progress(self, done: int, total: int, unit: str) -> None:
        before = self._progress
        if (total, unit) != (before.total, before.unit) or done < before.done:
            self._first, self._since = done, time.monotonic()
        self._progress = replace(before, done=done, total=total, unit=unit)

    def _tell(self) -> None:
        """Writes the progress if it has changed, with a new line every `LINE_SECONDS`."""
        progress = self._progress  # which the step's own thread replaces
        if time.time() - self._last_line_time >= LINE_SECONDS:
            self._last_line = self._line(progress, time.monotonic() - self._since)
            self._last_line_time = time.time()
            self._note(self._last_line)
        progress = replace(progress, line=self._last_line, time=self._last_line_time)
        if progress != self._told:
            self.store.replace(progress_path(self.attempt), json.dumps(asdict(progress)).encode())
            self._told = progress

    def _line(self, progress: Progress, seconds: float) -> str:
        words = [f"{self._phase} for {timedelta(seconds=round(seconds))}"]
        if progress.unit:
            words = [pace(progress, progress.done - self._first, seconds)]
        shown = [name for name in SHOWN if name in self._metrics]
        return ", ".join(words + [f"{name.replace('_', ' ')} {self._metrics[name]:.4g}" for name in shown])

    def text(self) -> str:
        """Returns all events so far, as lines of JSON."""
        return "".join(self._lines)

    def resume(self, text: str) -> None:
        """Puts the events of an interrupted attempt before the events of this attempt."""
        self._lines = text.splitlines(keepends=True) + self._lines
        self.store.replace(events_path(self.attempt), self.text().encode())
        self._written = len(self._lines)

    def _append(self, event: Mapping[str, object]) -> None:
        self._lines.append(json.dumps({"time": round(time.time() * 1000), **event}) + "\n")
        if self._local or time.monotonic() - self._flushed >= FLUSH_SECONDS:
            with contextlib.suppress(Exception):  # written with the next event
                self._write()

    def close(self) -> None:
        """Writes the events that are not written yet, and syncs the file to disk. Raises what the store raises."""
        self._write()
        if self._written and isinstance(self.store, LocalStore):
            sync(self.store.root / events_path(self.attempt))

    def _write(self) -> None:
        new = "".join(self._lines[self._written :])
        if new and self._whole and isinstance(self.store, LocalStore):
            self._whole = False  # if this write breaks off, the next one replaces the file
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


def read_progress(store: Store, attempt: str) -> Progress | None:
    """Returns the progress of an attempt; None before it has written any."""
    data = store.read(progress_path(attempt)) if attempt else None
    return Progress(**json.loads(data)) if data else None


def pace(progress: Progress, done: int, seconds: float) -> str:
    """Returns how far a step is, with its rate and the time left, given what it has `done` in these seconds.

    >>> pace(Progress(300, 2000, "passages"), 250, 20.0)
    '300/2,000 passages, 12.5/s, 0:02:16 left'
    >>> pace(Progress(300, 0, "passages"), 250, 20.0)
    '300 passages'
    """
    total = f"/{progress.total:,}" if progress.total else ""
    far = f"{progress.done:,}{total} {progress.unit}"
    if not done or not seconds or progress.done >= progress.total:
        return far
    rate = done / seconds
    left = timedelta(seconds=round((progress.total - progress.done) / rate))
    return f"{far}, {f'{rate:,.1f}/s' if rate >= 1 else f'{60 * rate:,.1f}/min'}, {left} left"


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


_EVENTS = {"metric": MetricEvent, "warning": WarningEvent, "fact": SimpleNamespace}
"""Facts are in stores of November 2026: the record has them too, but the counts of shipped events include them."""


def read_events(store: Store, attempt: str) -> Iterator[MetricEvent | WarningEvent | SimpleNamespace]:
    """Yields the events of an attempt, up to a line cut off by a kill. Raises InputError for JSON that is no event."""
    for number, line in enumerate((store.read(events_path(attempt)) or b"").splitlines(), 1):
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError):
            return
        try:
            event = _EVENTS[fields.pop("event")](**fields)
        except (AttributeError, KeyError, TypeError):
            raise InputError(
                f"{store.url}/{events_path(attempt)} line {number} is no event: remove the line, or the file and with it the "
                "curves of this step"
            ) from None
        yield event


def read_metrics(store: Store, attempt: str) -> Iterator[MetricEvent]:
    """Returns the metrics of an attempt so far."""
    return (event for event in read_events(store, attempt) if isinstance(event, MetricEvent))
