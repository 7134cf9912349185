"""What a person sees while a run goes on: one line a finished step, bars for those at work.

Reads the run's state files. Where the output is no terminal, a plain line for each beginning and
end.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from multiview.artifacts.store import LocalStore, Store
from multiview.events import progress_path, read_events
from multiview.runs import StepState, read_states

MARKS = {"done": "[green]✓[/]", "found": "[dim]✓[/]", "failed": "[red]✗[/]"}


class Progress:
    """Watches one run's states from a thread, from `__enter__` to `__exit__`."""

    def __init__(self, store: Store, run: str, paths: list[str], started: float):
        self.store, self.run, self.paths, self.started = store, run, paths, started
        self.width = max(map(len, paths), default=0)
        self.console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
        self.bars = Bars(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[detail]}"),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        self.states: dict[str, StepState] = {}
        self.tasks: dict[str, Any] = {}
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True, name="progress")

    def __enter__(self) -> Progress:
        self.bars.start()
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()
        self.bars.stop()

    def finish(self) -> list[StepState]:
        """Stop watching; the last states of all steps that have begun, in the plan's order."""
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
        for state in read_states(self.store, self.run, but=ended):
            if state.path not in self.paths or (state.ended or state.started) < self.started:
                continue  # of an earlier driver
            known = self.states.get(state.path)
            if known is None or known.status != state.status:
                self.states[state.path] = state
                self._show(state)
            if state.status == "running":
                self._advance(state)

    def _show(self, state: StepState) -> None:
        number = f"{self.paths.index(state.path) + 1:>2}/{len(self.paths)}"
        name = f"{state.path:<{self.width}}"
        if state.status == "running":
            self.tasks[state.path] = self.bars.add_task(name, total=None, detail="")
            if not self.console.is_terminal:
                self.console.print(f"  {number} {name} started")
            return
        if state.path in self.tasks:
            self.bars.remove_task(self.tasks.pop(state.path))
        seconds = (state.ended or state.started) - state.started
        note = "found" if state.status == "found" else f"{seconds:.1f} s"
        self.console.print(f"{MARKS[state.status]} {number} {name} {note}")
        if state.attempt and state.status == "done":
            for event in read_events(self.store, state.attempt):
                if event["event"] == "warning":
                    self.console.print(f"        {event['text']}", style="yellow", markup=False)

    def _advance(self, state: StepState) -> None:
        data = self.store.read(progress_path(state.attempt))
        if data and state.path in self.tasks:
            at = json.loads(data)
            detail = f"{at['done']:,}/{at['total']:,} {at['unit']}"
            self.bars.update(self.tasks[state.path], total=at["total"], completed=at["done"], detail=detail)
