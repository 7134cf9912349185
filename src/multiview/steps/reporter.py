"""The state of one step of one run, written while the step runs."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from multiview.artifacts.record import Reference
from multiview.artifacts.store import Store
from multiview.errors import InputError, one_line
from multiview.steps.provenance import code_version
from multiview.steps.runs import NO_PAGES, Pages, Status, StepState, write_state

if TYPE_CHECKING:
    from multiview.steps.work import Work


class StepReporter:
    """Keeps the state file of one step of one run up to date."""

    def __init__(self, store: Store, run: str, path: str, step: str, pages: Pages = NO_PAGES):
        self.store, self.run, self.pages = store, run, pages
        state = StepState(path=path, step=step, status="running", started=time.time())
        self.state = state.model_copy(update=code_version())

    def describe(self, work: Work) -> None:
        """Sets the step's key, settings and inputs, which the next write includes."""
        self._change(key=work.key, config=json.loads(work.config), inputs=work.references)

    def begin_attempt(self, folder: str) -> None:
        """Writes that an attempt has begun in `folder`, relative to the store."""
        self._change(attempt=folder)
        self.write()

    def finish(self, status: Status, attempt: str, outputs: Mapping[str, Reference]) -> None:
        """Writes that the outputs are complete: `done`, or `found`."""
        self._change(status=status, attempt=attempt, ended=time.time(), outputs=dict(outputs))
        self.write()

    def begin_again(self) -> None:
        """Sets the step's status, which the next write includes, to running: outputs that were found are gone."""
        self._change(status="running", attempt="", ended=None, outputs={})

    def fail(self, error: BaseException) -> None:
        """Writes the failure as one line."""
        bad_input = isinstance(error, InputError)
        line = str(error) if bad_input else one_line(error)
        self._change(status="failed", ended=time.time(), error=line, bad_input=bad_input)
        self.write()

    @contextlib.contextmanager
    def failures(self) -> Iterator[None]:
        """Writes an exception of the block as the step's failure, and raises it again."""
        try:
            yield
        except BaseException as error:
            self.fail(error)
            raise

    def write(self) -> None:
        """Writes the current state."""
        write_state(self.store, self.run, self.state)

    def _change(self, **fields: object) -> None:
        self.state = self.state.model_copy(update=fields)
