"""The work of one step: all that decides its output, and doing it."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from multiview import __version__
from multiview.artifacts.attempt import Attempt
from multiview.artifacts.record import Record, Reference, load_reference
from multiview.artifacts.staged import Named
from multiview.artifacts.staging import scratch, stage
from multiview.artifacts.store import Store
from multiview.config import canonical_json
from multiview.errors import InputError, one_line
from multiview.steps.checkpoints import Checkpoints
from multiview.steps.events import EventLog
from multiview.steps.runs import StepState, write_state
from multiview.steps.step import Step
from multiview.steps.table import step

SHARD_THREADS = "MULTIVIEW_SHARD_THREADS"
"""Environment variable: threads of a step that works on one shard beside others."""

GIT_SHA = "MULTIVIEW_GIT_SHA"
"""Environment variable: the commit of the code that runs, with `-dirty` where files differ from it."""

IMAGE = "MULTIVIEW_IMAGE"
"""Environment variable of a pod: the image that it runs in."""

Inputs = Mapping[str, Reference | list[Reference]]


class StepTeller:
    """The state file of one step of one run, told piece by piece."""

    def __init__(self, store: Store, run: str, path: str, name: str):
        self.store, self.run = store, run
        begun = StepState(path=path, step=name, status="running", started=time.time())
        self.state = begun.model_copy(update=code())

    def tell(self, **fields: Any) -> None:
        self.state = self.state.model_copy(update=fields)
        write_state(self.store, self.run, self.state)

    @contextlib.contextmanager
    def failures(self) -> Iterator[None]:
        """Whatever is raised in the block is also told, as one line."""
        try:
            yield
        except BaseException as error:
            bad_input = isinstance(error, InputError)
            line = str(error) if bad_input else one_line(error)
            self.tell(status="failed", ended=time.time(), error=line, bad_input=bad_input)
            raise


@dataclass(frozen=True)
class Work:
    """A step with all that decides its output."""

    step: Step
    settings: SimpleNamespace
    references: dict[str, list[Reference]]
    records: dict[str, list[tuple[Store, Record]]]
    sources: Any
    key: str

    @classmethod
    def of(cls, step: Step, config: str, inputs: Inputs, store: Store) -> Work:
        """Raises InputError for an input that is gone or not the one that was meant."""
        settings = step.parse(config)
        references = {name: v if isinstance(v, list) else [v] for name, v in inputs.items()}
        records = {name: [load_reference(r, name) for r in refs] for name, refs in references.items()}
        digests: dict[str, Any] = {}
        for name, refs in references.items():
            if name in step.hints:
                continue
            parts = [
                record.file(ref.file).sha256 if ref.file else record.digest
                for ref, (_, record) in zip(refs, records[name], strict=True)
            ]
            digests[name] = parts if name in step.lists else parts[0]
        sources = step.fingerprint(settings, store)
        return cls(step, settings, references, records, sources, step.key(settings, digests, sources))

    @classmethod
    def told(cls, state: StepState, sources: Any) -> Work:
        """The work that a step's state tells of. Raises InputError for an input that is gone."""
        known, config = step(state.step), canonical_json(state.config)
        records = {name: [load_reference(r, name) for r in refs] for name, refs in state.inputs.items()}
        return cls(known, known.parse(config), state.inputs, records, sources, state.key)

    def stage(self) -> dict[str, Any]:
        """All inputs, `Staged` on local disk or only `Named`; lists of them where the step has lists."""
        given: dict[str, list[Any]] = {
            name: [
                Named(r.digest, f"{s.url}/{r.folder}") if name in self.step.named else stage(s, r, ref.file)
                for (s, r), ref in zip(self.records[name], refs, strict=True)
            ]
            for name, refs in self.references.items()
        }
        return {name: parts if name in self.step.lists else parts[0] for name, parts in given.items()}


def make(work: Work, told: StepTeller) -> dict[str, Record]:
    """Do a step's work and publish its outputs; the records that count, ours or a faster attempt's."""
    step, store = work.step, told.store
    attempts = {kind: Attempt(store, kind, work.key) for kind in step.outputs}
    first = attempts[step.outputs[0]]
    log = EventLog(store, first.data)
    told.tell(attempt=first.data)
    more: dict[str, Any] = {"store": store} if step.store else {}
    if step.checkpoints:
        more["checkpoints"] = Checkpoints(store, work.key, scratch(), log)
    if step.shards and (threads := os.environ.get(SHARD_THREADS)):
        os.environ["OMP_NUM_THREADS"] = threads  # torch reads it when imported
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(int(threads))
    try:
        folders = {kind: attempt.path for kind, attempt in attempts.items()}
        step.function()(work.settings, work.stage(), folders, log, **more)
        return {
            kind: attempt.publish(
                step=step.name,
                step_version=step.version,
                config=step.key_settings(work.settings),
                inputs=work.references,
                sources=work.sources,
                facts=log.facts,
                environment=environment(),
            )[0]
            for kind, attempt in attempts.items()
        }
    except Exception:
        for attempt in attempts.values():
            with contextlib.suppress(Exception):  # the step's own error is the one to tell
                attempt.abandon()
        raise
    finally:
        log.close()


def code() -> dict[str, str]:
    """The commit and the image of the code that runs here, where the environment names them."""
    variables = {"git_sha": GIT_SHA, "image": IMAGE}
    return {name: os.environ[variable] for name, variable in variables.items() if os.environ.get(variable)}


def environment() -> dict[str, Any]:
    """Whose code ran, and what can change the last bits of a float: versions, device, instruction set."""
    found: dict[str, Any] = {**code(), "multiview": __version__, "python": sys.version.split()[0]}
    if torch := sys.modules.get("torch"):
        found["torch"] = torch.__version__
        found["instruction_set"] = torch.backends.cpu.get_cpu_capability()
        found["threads"] = torch.get_num_threads()
        found["device"] = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    return found
