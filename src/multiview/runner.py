"""Runs one step: finds its outputs in the store, or makes them."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from multiview import __version__
from multiview.artifacts.attempt import Attempt
from multiview.artifacts.checkpoints import Checkpoints
from multiview.artifacts.record import Record, Reference, load_record, load_reference, read_record
from multiview.artifacts.staged import Staged
from multiview.artifacts.staging import scratch, stage
from multiview.artifacts.store import Store, open_store
from multiview.errors import InputError, one_line
from multiview.events import EventLog, Silent
from multiview.runs import Context, StepState, write_state
from multiview.steps import Step, step
from multiview.training.trainjob import NODES

DRIVER_LOCK = "MULTIVIEW_DRIVER_LOCK"
"""Environment variable: a file that the driver keeps locked while it lives."""

SHARD_THREADS = "MULTIVIEW_SHARD_THREADS"
"""Environment variable: threads of a step that works on one shard beside others."""

GIT_SHA = "MULTIVIEW_GIT_SHA"
"""Environment variable: the commit of the code that runs, with `-dirty` where files differ from it."""

IMAGE = "MULTIVIEW_IMAGE"
"""Environment variable of a pod: the image that it runs in."""

SHIP_SECONDS = 20.0
"""Between two shipments of a step that goes on."""

Inputs = Mapping[str, Reference | list[Reference]]


def execute(
    name: str,
    context: str,
    path: str,
    config: str,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    file: Mapping[str, str] | None = None,
) -> str:
    """The body of every pipeline component: run a step and hand its addresses on.

    `inputs` are KFP artifacts whose metadata carry `address` and `digest`, addresses, or lists of
    addresses; `outputs` are KFP artifacts by kind, whose file becomes a copy of the record; `file`
    names the one file that is meant of an input. Returns the address of the first output.
    """
    where = Context.model_validate_json(context)
    told = StepTeller(open_store(where.store), where.run, path, name)
    watch_driver()
    with _shipping(told), told.failures():
        references = {
            input_name: [_reference(v, (file or {}).get(input_name)) for v in value]
            if isinstance(value, list)
            else _reference(value, (file or {}).get(input_name))
            for input_name, value in inputs.items()
        }
        records = run_step(step(name), told, config, references)
        for kind, artifact in outputs.items():
            record = records[kind]
            artifact.metadata.update(
                address=f"{where.store}/{record.folder}", digest=record.digest, path=path
            )
            Path(artifact.path).write_bytes(record.to_json())
    first = next(iter(records.values()))
    return f"{where.store}/{first.folder}"


@contextlib.contextmanager
def _shipping(told: StepTeller) -> Iterator[None]:
    """In a pod, where no driver does it, ship this step to MLflow as it goes, if there is an MLflow.

    What cannot be shipped waits for the run's last step or `multiview sync`: results never wait for MLflow.
    """
    uri = os.environ.get("MLFLOW_TRACKING_URI")
    if not uri or DRIVER_LOCK in os.environ:
        yield
        return
    from multiview import tracking

    done = threading.Event()

    def ship() -> None:
        with contextlib.suppress(Exception):
            tracking.ship(told.store, told.run, uri, only={told.state.path})

    if theirs := os.environ.get("MLFLOW_RUN_ID"):
        with contextlib.suppress(Exception):
            tracking.link(uri, theirs, told.run, told.state.path)

    def work() -> None:
        while not done.wait(SHIP_SECONDS):
            ship()

    thread = threading.Thread(target=work, daemon=True, name="shipping")
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(timeout=60)
        ship()


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


def run_step(step: Step, told: StepTeller, config: str, inputs: Inputs) -> dict[str, Record]:
    """Records of a step's outputs by kind, found or made. Raises whatever the step raises."""
    store = told.store
    work = _Work.of(step, config, inputs)
    told.state = told.state.model_copy(
        update={"key": work.key, "config": json.loads(config), "inputs": work.references}
    )
    found = {kind: read_record(store, kind, work.key) for kind in step.outputs}
    outputs = {kind: record for kind, record in found.items() if record}
    complete = len(outputs) == len(found)
    if not complete:
        outputs = _make_on_nodes(work, told, config) or _make(work, told)
    if step.checkpoints:
        Checkpoints(store, work.key, scratch()).clear()
    told.tell(
        status="found" if complete else "done",
        attempt=outputs[step.outputs[0]].data,
        ended=time.time(),
        outputs={kind: _output(store, record) for kind, record in outputs.items()},
    )
    return outputs


def run_on_node(step: Step, told: StepTeller, config: str, inputs: Inputs, first: bool) -> None:
    """One node's part of a step that several do together; the `first` tells events and publishes.

    Nothing happens if the step's outputs are there. Raises whatever the step raises.
    """
    if find_records(told.store, step, config, inputs):
        return
    work = _Work.of(step, config, inputs)
    if first:
        told.state = told.state.model_copy(
            update={"key": work.key, "config": json.loads(config), "inputs": work.references}
        )
        _make(work, told)
        return
    folder = scratch() / "unpublished"
    outputs = {kind: folder / kind for kind in step.outputs}
    checkpoints = Checkpoints(told.store, work.key, scratch())
    step.function()(work.settings, work.stage(), outputs, Silent(), checkpoints=checkpoints)


def find_records(store: Store, step: Step, config: str, inputs: Inputs) -> dict[str, Record] | None:
    """The records of a step's outputs by kind, if all of them are in the store already."""
    key = _Work.of(step, config, inputs).key
    found = {kind: read_record(store, kind, key) for kind in step.outputs}
    records = {kind: record for kind, record in found.items() if record}
    return records if len(records) == len(found) else None


@dataclass(frozen=True)
class _Work:
    """A step with all that decides its output."""

    step: Step
    settings: SimpleNamespace
    references: dict[str, list[Reference]]
    records: dict[str, list[tuple[Store, Record]]]
    sources: Any
    key: str

    @classmethod
    def of(cls, step: Step, config: str, inputs: Inputs) -> _Work:
        """Raises InputError for an input that is gone or not the one that was meant."""
        settings = step.parse(config)
        references = {name: v if isinstance(v, list) else [v] for name, v in inputs.items()}
        records = {name: [load_reference(r, name) for r in refs] for name, refs in references.items()}
        digests: dict[str, Any] = {}
        for name, refs in references.items():
            parts = [
                record.file(ref.file).sha256 if ref.file else record.digest
                for ref, (_, record) in zip(refs, records[name], strict=True)
            ]
            digests[name] = parts if name in step.lists else parts[0]
        sources = step.fingerprint(settings)
        return cls(step, settings, references, records, sources, step.key(settings, digests, sources))

    def stage(self) -> dict[str, Staged | list[Staged]]:
        """All inputs on local disk."""
        staged = {
            name: [stage(s, r, ref.file) for (s, r), ref in zip(self.records[name], refs, strict=True)]
            for name, refs in self.references.items()
        }
        return {name: parts if name in self.step.lists else parts[0] for name, parts in staged.items()}


def _make(work: _Work, told: StepTeller) -> dict[str, Record]:
    """Do a step's work and publish its outputs; the records that count, ours or a faster attempt's."""
    step, store = work.step, told.store
    attempts = {kind: Attempt(store, kind, work.key) for kind in step.outputs}
    first = attempts[step.outputs[0]]
    log = EventLog(store, first.data)
    told.tell(attempt=first.data)
    more = {"checkpoints": Checkpoints(store, work.key, scratch(), log)} if step.checkpoints else {}
    if step.shards and SHARD_THREADS in os.environ:
        os.environ["OMP_NUM_THREADS"] = os.environ[SHARD_THREADS]  # torch reads it when imported
    try:
        folders = {kind: attempt.path for kind, attempt in attempts.items()}
        step.function()(work.settings, work.stage(), folders, log, **more)
        return {
            kind: attempt.publish(
                step=step.name,
                step_version=step.version,
                config={name: section.key_settings() for name, section in vars(work.settings).items()},
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


def _make_on_nodes(work: _Work, told: StepTeller, config: str) -> dict[str, Record] | None:
    """Have a step's work done by pods of their own; None where the environment names none."""
    if not work.step.together or NODES not in os.environ:
        return None
    from multiview.training.following import make_on_nodes

    return make_on_nodes(work.step, told, config, work.references, work.key)


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


def watch_driver() -> None:
    """End this process when its driver is gone: when the lock that the driver holds is free."""
    path = os.environ.get(DRIVER_LOCK)
    if not path:
        return

    def wait() -> None:
        from filelock import FileLock

        with FileLock(path).acquire(poll_interval=1.0):
            os._exit(70)

    threading.Thread(target=wait, daemon=True, name="driver-watch").start()


def _reference(value: Any, file: str | None) -> Reference:
    if isinstance(value, str):
        _, record = load_record(value)
        return Reference(address=value, digest=record.digest, file=file)
    metadata = value.metadata
    if "address" not in metadata:
        raise InputError(f"input artifact {value.name} carries no address: its step did not publish one")
    return Reference(address=metadata["address"], digest=metadata["digest"], file=file)


def _output(store: Store, record: Record) -> Reference:
    return Reference(address=f"{store.url}/{record.folder}", digest=record.digest)
