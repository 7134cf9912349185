"""The display of a run in progress, read from its state files.

On a terminal it is one screen with a row for each round of each system; elsewhere a plain line when a step
begins and when it ends.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from itertools import groupby
from operator import attrgetter

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from multiview.artifacts.store import LocalStore, Store
from multiview.errors import counted
from multiview.steps.events import WarningEvent, progress_path, read_events
from multiview.steps.path import StepPath
from multiview.steps.runs import StepState, read_states
from multiview.terminal import Console

MARKS = {"done": ("✓", "green"), "found": ("✓", "dim"), "failed": ("✗", "red"), "running": ("", "")}


class Progress:
    """Watches the states of one run from a thread, between `__enter__` and `__exit__`."""

    def __init__(self, store: Store, run: str, paths: list[str], started: float):
        self.store, self.run, self.paths, self.started = store, run, paths, started
        self.width = max(map(len, paths), default=0)
        self.console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
        self.states: dict[str, StepState] = {}
        self.details: dict[str, tuple[int, int, str]] = {}
        self.spinner, self.rows = Spinner("dots"), _rows(paths)
        self.live = Live(console=self.console, get_renderable=self.render, refresh_per_second=4)
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True, name="progress")

    def __enter__(self) -> Progress:
        if self.console.is_terminal:
            self.live.start()
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()
        self.live.stop()

    def finish(self) -> list[StepState]:
        """Stops watching; returns the last states of all steps that have begun, in the plan's order."""
        if not self.stop.is_set():
            self.stop.set()
            self.thread.join()
            with contextlib.suppress(Exception):
                self._poll()
        return [self.states[path] for path in self.paths if path in self.states]

    def _watch(self) -> None:
        pause = 0.3 if isinstance(self.store, LocalStore) else 3.0
        while not self.stop.wait(pause):
            # A file may be gone between listing and reading it, a bucket may hiccup; the next look
            # sees the truth.
            with contextlib.suppress(Exception):
                self._poll()

    def _poll(self) -> None:
        ended = {path for path, state in self.states.items() if state.ended}
        states = {state.path: state for state in read_states(self.store, self.run, but=ended)}
        for state in (states[path] for path in self.paths if path in states):
            if (state.ended or state.started) < self.started:
                continue  # an earlier start wrote it
            before = self.states.get(state.path)
            self.states[state.path] = state
            if before is None or before.status != state.status:
                self._print(state)
            if state.status == "running" and (data := self.store.read(progress_path(state.attempt))):
                progress = json.loads(data)
                self.details[state.path] = progress["done"], progress["total"], progress["unit"]

    def _print(self, state: StepState) -> None:
        """Prints a line where there is no screen; warnings are lines in either case."""
        if not self.console.is_terminal:
            number = f"{self.paths.index(state.path) + 1:>2}/{len(self.paths)}"
            seconds = (state.ended or state.started) - state.started
            note = {"running": "started", "found": "found"}.get(state.status, _seconds(seconds))
            mark = MARKS[state.status][0] or " "
            self.console.print(f"{mark} {number} {state.path:<{self.width}} {note}", markup=False)
        if state.attempt and state.status == "done":
            for event in read_events(self.store, state.attempt):
                if isinstance(event, WarningEvent):
                    self.console.print(f"  {state.path}: {event.text}", style="yellow", markup=False)

    def render(self) -> RenderableType:
        """Returns the screen: a row per round of each system and per step that all systems share, and the bar of the run."""
        table = Table.grid(padding=(0, 2))
        for prefix, steps in self.rows:
            table.add_row(Text(prefix, "bold"), Text("   ").join(self._cell(*step) for step in steps.items()))
        states = self.states.values()
        ended, total = sum(state.ended is not None for state in states), len(self.paths)
        seconds = int(time.time() - self.started)
        elapsed = f"{ended}/{counted(total, 'step')}  {seconds // 60}:{seconds % 60:02d}"
        last = Table.grid(padding=(0, 2))
        last.add_row(ProgressBar(total, ended, width=40), Text(elapsed))
        return Group(table, Text(), last)

    def _cell(self, name: str, paths: list[str]) -> Text:
        """A step with all of its shards: its mark, name and time, or how far it is."""
        states = [self.states[path] for path in paths if path in self.states]
        if not states:
            return Text(f"· {name}", "dim")
        running = [state for state in states if not state.ended]
        if not running and len(states) == len(paths):
            worst = next((s for s in states if s.status != "found"), states[0])
            worst = next((s for s in states if s.status == "failed"), worst)
            seconds = max((s.ended or 0) for s in states) - min(s.started for s in states)
            mark, style = MARKS[worst.status]
            note = "found" if worst.status == "found" else _seconds(seconds)
            return Text(f"{mark} ", style) + Text(f"{name} ", "") + Text(note, "dim")
        details = [self.details[s.path] for s in running if s.path in self.details]
        note = "  ".join(f"{done:,}/{total:,} {unit}" for done, total, unit in details)
        spinner = self.spinner.render(time.time())
        return Text.assemble(f"{spinner} ", (name, "bold"), f" {note}", style="cyan")


def _rows(paths: list[str]) -> list[tuple[str, dict[str, list[str]]]]:
    """The system and the round of each row with its steps: per step the name, and the paths of its shards."""
    rows = []
    for prefix, row in groupby(map(StepPath.parse, paths), key=attrgetter("prefix")):
        steps: dict[str, list[str]] = {}
        for path in row:
            steps.setdefault(path.step, []).append(str(path))
        rows.append((prefix, steps))
    return rows


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
