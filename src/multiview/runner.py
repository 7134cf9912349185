"""Runs one step: finds its outputs in the store, or makes them."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from multiview import __version__
from multiview.artifacts.attempt import Attempt, Checkpoints
from multiview.artifacts.record import Record, Reference, load_record, read_record
from multiview.artifacts.staging import scratch, stage
from multiview.artifacts.store import Store, open_store
from multiview.errors import InputError
from multiview.events import EventLog
from multiview.runs import Context, StepState, write_state
from multiview.steps import Step, step

DRIVER_LOCK = "MULTIVIEW_DRIVER_LOCK"
"""Environment variable: a file that the driver keeps locked while it lives."""

SHARD_THREADS = "MULTIVIEW_SHARD_THREADS"
"""Environment variable: threads of a step that works on one shard beside others."""

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
    with told.failures():
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


class StepTeller:
    """The state file of one step of one run, told piece by piece."""

    def __init__(self, store: Store, run: str, path: str, name: str):
        self.store, self.run = store, run
        self.state = StepState(path=path, step=name, status="running", started=time.time())

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
            line = str(error) if bad_input else _one_line(error)
            self.tell(status="failed", ended=time.time(), error=line, bad_input=bad_input)
            raise


def run_step(step: Step, told: StepTeller, config: str, inputs: Inputs) -> dict[str, Record]:
    """Records of a step's outputs by kind, found or made. Raises whatever the step raises."""
    store = told.store
    settings = step.parse(config)
    records = _resolve(inputs)
    references, digests = _describe(step, inputs, records)
    sources = step.fingerprint(settings)
    key = step.key(settings, digests, sources)
    told.state = told.state.model_copy(
        update={
            "key": key,
            "config": json.loads(config),
            "inputs": references,
        }
    )
    found = {kind: read_record(store, kind, key) for kind in step.outputs}
    outputs = {kind: record for kind, record in found.items() if record}
    complete = len(outputs) == len(found)
    if complete:
        attempt = outputs[step.outputs[0]].data
    else:
        outputs, attempt = _make(step, told, settings, references, records, sources)
    told.tell(
        status="found" if complete else "done",
        attempt=attempt,
        ended=time.time(),
        outputs={kind: _output(store, record) for kind, record in outputs.items()},
    )
    return outputs


def _make(
    step: Step,
    told: StepTeller,
    settings: SimpleNamespace,
    references: dict[str, list[Reference]],
    records: dict[str, list[tuple[Store, Record]]],
    sources: Any,
) -> tuple[dict[str, Record], str]:
    store, key = told.store, told.state.key
    attempts = {kind: Attempt(store, kind, key) for kind in step.outputs}
    first = next(iter(attempts.values()))
    log = EventLog(store, first.data)
    told.tell(attempt=first.data)
    try:
        staged = {
            name: [stage(s, r, ref.file) for (s, r), ref in zip(records[name], refs, strict=True)]
            for name, refs in references.items()
        }
        shaped = {n: v if n in step.lists else v[0] for n, v in staged.items()}
        more = {}
        if step.name == "train":
            more["checkpoints"] = Checkpoints(store, key, scratch())
        step.function()(settings, shaped, {kind: a.path for kind, a in attempts.items()}, log, **more)
        published = {
            kind: attempt.publish(
                step=step.name,
                step_version=step.version,
                config={n: s.key_settings() for n, s in vars(settings).items()},
                inputs=references,
                sources=sources,
                facts=log.facts,
                environment=environment(),
            )[0]
            for kind, attempt in attempts.items()
        }
        if "checkpoints" in more:
            more["checkpoints"].clear()
    except Exception:
        for attempt in attempts.values():
            attempt.abandon()
        raise
    finally:
        log.close()
    return published, first.data


def environment() -> dict[str, Any]:
    """What can change the last bits of a float: versions, device, instruction set."""
    found: dict[str, Any] = {"multiview": __version__, "python": sys.version.split()[0]}
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


def _resolve(inputs: Inputs) -> dict[str, list[tuple[Store, Record]]]:
    resolved: dict[str, list[tuple[Store, Record]]] = {}
    for name, value in inputs.items():
        for reference in value if isinstance(value, list) else [value]:
            store, record = load_record(reference.address)
            if record.digest != reference.digest:
                raise InputError(
                    f"{reference.address} has digest {record.digest[:12]}… where {name} expects "
                    f"{reference.digest[:12]}…: it was rebuilt since; run the pipeline again"
                )
            resolved.setdefault(name, []).append((store, record))
    return resolved


def _describe(
    step: Step, inputs: Inputs, records: dict[str, list[tuple[Store, Record]]]
) -> tuple[dict[str, list[Reference]], dict[str, Any]]:
    references = {n: v if isinstance(v, list) else [v] for n, v in inputs.items()}
    digests: dict[str, Any] = {}
    for name, refs in references.items():
        parts = [
            record.file(ref.file).sha256 if ref.file else record.digest
            for ref, (_, record) in zip(refs, records[name], strict=True)
        ]
        digests[name] = parts if name in step.lists else parts[0]
    return references, digests


def _output(store: Store, record: Record) -> Reference:
    return Reference(address=f"{store.url}/{record.folder}", digest=record.digest)


def _one_line(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    text = " ".join(str(error).split()) or type(error).__name__
    return f"{type(error).__name__}: {text}{place}"
