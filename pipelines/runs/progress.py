"""The display of a run in progress, read from its state files. On a terminal it is a screen with a row for each round
of a system; elsewhere it is a line when a step begins, every half minute while it works, and when it ends."""

from __future__ import annotations

import contextlib
import sys
import time
from itertools import groupby

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from multiview.artifacts.store import LocalStore, Store
from multiview.cli.console import Console
from multiview.errors import counted
from multiview.steps import events
from multiview.steps.background import repeated
from multiview.steps.path import StepPath
from multiview.steps.runs import MARKS, StepState, duration, lines_about, noted, read_states

STYLES = {"done": "green", "found": "dim", "failed": "red", "killed": "red"}


class Progress:
    """Watches the states of one run from a thread, between `__enter__` and `__exit__`."""

    def __init__(self, store: Store, run: str, paths: list[str], started: float):
        self.store, self.run, self.paths, self.started = store, run, paths, started
        self.width = max(map(len, paths), default=0)
        self.console = Console(file=sys.stdout, soft_wrap=True)
        self.states: dict[str, StepState] = {}
        self.details: dict[str, events.Progress] = {}
        self.spinner, self.rows = Spinner("dots"), _rows(paths)
        self.live = Live(console=self.console, get_renderable=self.render, refresh_per_second=4)
        self.watch = contextlib.ExitStack()

    def __enter__(self) -> Progress:
        if self.console.is_terminal:
            self.live.start()
        # A file may vanish between listing and reading, or a bucket may fail; the next poll gets it right.
        self.watch.enter_context(repeated(self._poll, 0.3 if isinstance(self.store, LocalStore) else 3.0))
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()
        self.live.stop()

    def finish(self) -> list[StepState]:
        """Stops watching; returns the last states of all steps that have begun, in the plan's order."""
        self.watch.close()
        with contextlib.suppress(Exception):
            self._poll()
        return [self.states[path] for path in self.paths if path in self.states]

    def _poll(self) -> None:
        # Failed steps are read again: they may be retried.
        ended = {path for path, state in self.states.items() if state.finished}
        states = {state.path: state for state in read_states(self.store, self.run, but=ended)}
        for state in (states[path] for path in self.paths if path in states):
            if (state.ended or state.started) < self.started:
                continue  # an earlier start wrote it
            before = self.states.get(state.path)
            self.states[state.path] = state
            if before is None or before.status != state.status:
                self._print(state)
            if state.status == "running" and (progress := events.read_progress(self.store, state.attempt)):
                known = self.details.get(state.path)
                if progress.line and (known is None or known.line != progress.line):
                    self._say(noted(state.path, progress.line))
                self.details[state.path] = progress

    def _print(self, state: StepState) -> None:
        """Prints the step's lines if there is no screen; its warnings are printed in either case."""
        number = f"{self.paths.index(state.path) + 1:>2}/{len(self.paths)} "
        for line in lines_about(state, number, self.width):
            self._say(line)
        if state.attempt and state.status == "done":
            for event in events.read_events(self.store, state.attempt):
                if isinstance(event, events.WarningEvent):
                    self.console.print(noted(state.path, event.text), style="yellow")

    def _say(self, line: str) -> None:
        if not self.console.is_terminal:
            self.console.print(line)

    def render(self) -> RenderableType:
        """Returns the screen: a row per round of each system and per step that all systems share, and the bar of the run."""
        table = Table.grid(padding=(0, 2))
        for prefix, steps in self.rows:
            table.add_row(Text(prefix, "bold"), Text("   ").join(self._cell(*step) for step in steps.items()))
        states = [*self.states.values()]  # a copy: the watching thread adds to it
        ended, total = sum(state.ended is not None for state in states), len(self.paths)
        seconds = int(time.time() - self.started)
        elapsed = f"{ended}/{counted(total, 'step')}  {seconds // 60}:{seconds % 60:02d}"
        last = Table.grid(padding=(0, 2))
        last.add_row(ProgressBar(total, ended, width=40), Text(elapsed))
        return Group(table, Text(), last)

    def _cell(self, name: str, paths: list[str]) -> Text:
        """A step with all its shards: its mark, name and time, or how far it is."""
        states = [self.states[path] for path in paths if path in self.states]
        if not states:
            return Text(f"· {name}", "dim")
        running = [state for state in states if not state.ended]
        if not running and len(states) == len(paths):
            worst = max(states, key=lambda state: (state.failed, state.status != "found"))
            began, ended = min(s.started for s in states), max((s.ended or 0) for s in states)
            whole = worst.model_copy(update={"started": began, "ended": ended})
            note = "found" if worst.status == "found" else duration(whole)
            return Text.assemble((f"{MARKS[worst.status]} ", STYLES[worst.status]), f"{name} ", (note, "dim"))
        details = [self.details[s.path] for s in running if s.path in self.details]
        note = "  ".join(f"{at.done:,}/{at.total:,} {at.unit}" for at in details if at.total)
        spinner = self.spinner.render(time.time())
        return Text.assemble(f"{spinner} ", (name, "bold"), f" {note}", style="cyan")


def _rows(paths: list[str]) -> list[tuple[str, dict[str, list[str]]]]:
    """The rows: each one's system and round, and the paths of each of its steps' shards by the step's name."""
    rows = []
    for prefix, row in groupby(map(StepPath.parse, paths), key=lambda path: path.prefix):
        steps: dict[str, list[str]] = {}
        for path in row:
            steps.setdefault(path.step, []).append(str(path))
        rows.append((prefix, steps))
    return rows
