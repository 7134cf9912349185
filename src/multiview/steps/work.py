"""The work of one step, which is everything that decides its outputs, and the state that is written while it runs."""

import contextlib
import json
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from multiview import environment
from multiview.artifacts.record import Record, Reference, load_reference, read_record
from multiview.artifacts.scratch import scratch
from multiview.artifacts.staging import LocalArtifact, same_writing, stage, stamp, to_copy
from multiview.artifacts.store import Store
from multiview.config import Config, JsonObject
from multiview.errors import InputError, one_line
from multiview.steps.checkpoints import NO_CHECKPOINTS, Checkpoints
from multiview.steps.context import Input, StepContext
from multiview.steps.events import Events
from multiview.steps.provenance import code_version
from multiview.steps.runs import (
    NO_PAGES,
    Pages,
    Status,
    StepState,
    lines_about,
    noted,
    read_state,
    write_state,
)
from multiview.steps.step import Step, StepInput

Inputs = Mapping[str, Reference | list[Reference]]


@dataclass(frozen=True)
class Work:
    """A step with everything that decides its outputs."""

    step: Step
    config: str
    """The canonical JSON of its settings, as its component received it."""
    settings: Config
    inputs: dict[str, list[StepInput]]
    sources: JsonObject
    """Fingerprints of everything that is read besides settings and inputs."""
    key: str

    @classmethod
    def resolve(cls, step: Step, config: str, inputs: Inputs, store: Store) -> Self:
        """Reads the inputs' records and computes the key. Raises InputError if an input is gone or was replaced."""
        settings = step.parse(config)
        reads: dict[str, list[StepInput]] = {}
        for name, value in inputs.items():
            references = value if isinstance(value, list) else [value]
            reads[name] = [StepInput(each, *load_reference(each, name)) for each in references]
        sources = step.fingerprint(settings, store)
        key = step.key(settings, step.input_digests(reads), sources)
        return cls(step, config, settings, reads, sources, key)

    @property
    def references(self) -> dict[str, list[Reference]]:
        """References to its inputs by name."""
        return {name: [read.reference for read in reads] for name, reads in self.inputs.items()}

    def find(self, store: Store) -> dict[str, Record]:
        """Returns the records of the step's outputs by kind, as far as they are in the store."""
        records = {kind: read_record(store, kind, self.key) for kind in self.step.outputs}
        return {kind: record for kind, record in records.items() if record}

    def context(
        self,
        store: Store,
        outputs: Mapping[str, Path],
        events: Events,
        checkpoints: Checkpoints = NO_CHECKPOINTS,
        pages: Pages = NO_PAGES,
    ) -> StepContext:
        """Returns the argument of the step's function, with its inputs on local disk. Raises InputError where they are
        damaged, or the scratch folder has no room for them."""
        self._check_room()
        return StepContext(
            settings=self.settings,
            inputs={name: self._input(name) for name in self.inputs},
            outputs=outputs,
            events=events,
            checkpoints=checkpoints if self.step.checkpoints else NO_CHECKPOINTS,
            pages=pages,
            opened=store if self.step.reads_store else None,
        )

    def check_inputs(self, context: StepContext) -> None:
        """Raises InputError if a file was written to since it was staged, or a source has another fingerprint than in
        the key: the outputs may be made from other bytes."""
        try:
            now = self.sources if self.step.reads_store else self.step.fingerprint(self.settings, None)
        except InputError as error:
            raise InputError(
                f"{error}; the outputs of step {self.step.name} were not kept: run again"
            ) from error
        if changed := [name for name in self.sources if now.get(name) != self.sources[name]]:
            raise InputError(
                f"step {self.step.name}: {' and '.join(changed)} changed while the step read it, so the outputs were not "
                "kept: run again"
            )
        for name, value in context.inputs.items():
            staged = value if isinstance(value, list) else [value]
            stamps = [each.stamps for each in staged if isinstance(each, LocalArtifact)]
            for file, before in (pair for each in stamps for pair in each.items()):
                if (now := stamp(file) if file.is_file() else None) == before:
                    continue
                self._input(name)  # if it is damaged, raises an error with the file and the way out
                if now is None or not same_writing(now, before):
                    raise InputError(
                        f"{file} was written to while step {self.step.name} read it, so the outputs were not kept: run again"
                    )

    def _check_room(self) -> None:
        staged = [reads for name, reads in self.inputs.items() if name not in self.step.recorded_inputs]
        copies: dict[Path, int] = {}
        for read in (read for reads in staged for read in reads):
            copies |= to_copy(read.store, read.record, read.reference.file)
        if (needed := sum(copies.values())) and needed > (free := shutil.disk_usage(scratch()).free):
            raise InputError(
                f"step {self.step.name}: its inputs need {needed:,} bytes, and the disk of the scratch folder {scratch()} "
                f"has {free:,} free: set kubeflow.steps.{self.step.name}.scratch, or {environment.SCRATCH} to a folder with "
                "more room"
            )

    def _input(self, name: str) -> Input:
        reads = self.inputs[name]
        if name in self.step.recorded_inputs:
            return Reference.to(reads[0].store, reads[0].record)
        parts = [stage(read.store, read.record, read.reference.file) for read in reads]
        return parts if name in self.step.list_inputs else parts[0]


class Termination(SystemExit):
    """This process was told to end, as when its run is cancelled or its node is taken away."""

    code = 128 + signal.SIGTERM


class StepReporter:
    """Keeps the state file of one step of one run up to date."""

    log: Callable[[str], None] = staticmethod(lambda line: None)
    """Receives the lines about the step. A run in this process prints them from the states that it reads."""

    def __init__(self, store: Store, run: str, path: str, step: str, pages: Pages = NO_PAGES):
        self.store, self.run, self.pages = store, run, pages
        state = StepState(path=path, step=step, status="running", started=time.time())
        self.state = state.model_copy(update=code_version())

    def describe(self, work: Work) -> None:
        """Sets the step's key, settings and inputs, which the next write includes."""
        self.change(key=work.key, config=json.loads(work.config), inputs=work.references)

    def begin_attempt(self, folder: str) -> None:
        """Writes that an attempt has begun in `folder`, relative to the store."""
        self.change(attempt=folder)
        self.write()

    def finish(self, status: Status, attempt: str, outputs: Mapping[str, Reference]) -> None:
        """Writes that the outputs are complete: `done`, or `found`."""
        self.change(status=status, attempt=attempt, ended=time.time(), outputs=dict(outputs))
        self.write()

    def fail(self, error: BaseException) -> None:
        """Writes the failure as one line, unless the step was killed: then the error only follows from that. If another
        attempt, as on another node, has finished meanwhile, its state stays."""
        if self.state.status == "killed":
            return
        written = read_state(self.store, self.run, self.state.path)
        other = written if written and written.started != self.state.started else None
        if other and other.finished and (other.ended or 0) > self.state.started:
            return
        status, line = "failed", one_line(error)
        if isinstance(error, Termination):
            status, line = "killed", "its pod was told to end (SIGTERM)"
        bad_input = isinstance(error, InputError)
        self.change(status=status, ended=time.time(), error=line, bad_input=bad_input)
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
        """Writes the current state, and its lines into the log."""
        write_state(self.store, self.run, self.state)
        for line in lines_about(self.state):
            self.log(line)

    def note(self, text: str) -> None:
        """Writes a line about the step into its log."""
        self.log(noted(self.state.path, text))

    def change(self, **fields: object) -> None:
        """Changes the state, for the next write."""
        self.state = self.state.model_copy(update=fields)
