"""The display of a run in progress, read from its state files: a line when a step begins, every half minute while it
works, and when it ends. On a terminal the running steps follow below."""

import contextlib
import sys
from typing import Self

from rich.console import Group
from rich.text import Text

from multiview.artifacts.store import LocalStore, Store
from multiview.cli.console import Console
from multiview.steps import events
from multiview.steps.background import repeated
from multiview.steps.runs import StepState, lines_about, noted, read_states


class Progress:
    """Watches the states of one run from a thread, between `__enter__` and `__exit__`."""

    def __init__(self, store: Store, run: str, paths: list[str], started: float):
        self.store, self.run, self.paths, self.started = store, run, paths, started
        self.width = max(map(len, paths), default=0)
        self.console = Console(file=sys.stdout, soft_wrap=True)
        self.states: dict[str, StepState] = {}
        self.details: dict[str, events.Progress] = {}
        self.status = self.console.status("")
        self.watch = contextlib.ExitStack()

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self.status.start()
        # A file may vanish between listing and reading, or a bucket may fail; the next poll gets it right.
        self.watch.enter_context(repeated(self._poll, 0.3 if isinstance(self.store, LocalStore) else 3.0))
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()
        self.status.stop()

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
                    self.console.print(noted(state.path, progress.line))
                self.details[state.path] = progress
        self._show_running()

    def _print(self, state: StepState) -> None:
        """Prints the step's lines, with its place among those that have begun, and its warnings."""
        number = f"{list(self.states).index(state.path) + 1:>2}/{len(self.paths)} "
        for line in lines_about(state, number, self.width):
            self.console.print(line)
        if state.attempt and state.status == "done":
            for event in events.read_events(self.store, state.attempt):
                if isinstance(event, events.WarningEvent):
                    self.console.print(noted(state.path, f"warning: {event.text}"), style="yellow")

    def _show_running(self) -> None:
        """Shows the running steps below the lines, each with how far it is."""
        line = Text(no_wrap=True, overflow="ellipsis")
        for path in (path for path, state in self.states.items() if not state.ended):
            at = self.details.get(path)
            line.append(f"{path}  {at.done:,}/{at.total:,} {at.unit}  " if at and at.total else f"{path}  ")
        self.status.update(Group(line))  # of a Text alone, Rich's spinner would forget the overflow
