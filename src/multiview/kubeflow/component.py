"""The body of every pipeline component: KFP artifacts in, a step done or found, addresses and records out."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from multiview import environment
from multiview.artifacts.record import Record, Reference, load_record
from multiview.artifacts.staging import stage
from multiview.artifacts.store import Store, open_store
from multiview.errors import InputError
from multiview.steps.execution import run_step, watch_driver
from multiview.steps.path import StepPath
from multiview.steps.reporter import StepReporter
from multiview.steps.runs import Context
from multiview.steps.step import Step
from multiview.steps.table import step
from multiview.steps.work import Inputs


class KfpArtifact(Protocol):
    """What is used of an artifact of KFP."""

    @property
    def name(self) -> str | None: ...

    @property
    def path(self) -> str: ...

    @property
    def metadata(self) -> dict[str, Any]: ...


Given = KfpArtifact | str | list[str]
"""An artifact of KFP, or an address, or a list of addresses: KFP compiles no list of artifacts."""


def execute(name: str, run: str, path: str, config: str, *, shard: str = "", **artifacts: Given) -> str:
    """Do a step, or find what it made, and pass the addresses of its outputs on.

    - `name` is the step's name in the table of steps; its declaration says which `artifacts` are inputs and which
      are outputs.
    - `run` is the JSON of a `runs.Context`, `config` that of the settings that the step reads.
    - `path` is the step's path in the run. A `shard` is appended to it, and the step's `sharded_inputs` are then the
      file of that shard alone.

    The metadata of an input carry its `address` and `digest`, and so do those of an output afterwards, with the
    step's `path`. The file of an output becomes a copy of the record, or the step's page: Kubeflow shows the file
    of an HTML artifact.

    Returns the address of the first output. Raises TypeError for artifacts other than the declared ones, InputError
    for an input without an address, and whatever the step raises.
    """
    declared, context = step(name), Context.model_validate_json(run)
    outputs = (*declared.outputs, *declared.forwards)
    if set(artifacts) != {*declared.inputs, *outputs}:
        raise TypeError(f"step {name} has artifacts {(*declared.inputs, *outputs)}, not {tuple(artifacts)}")
    path = str(StepPath.parse(path).of_shard(shard))
    reporter = StepReporter(open_store(context.store), context.run, path, name)
    watch_driver()
    with _shipping(reporter), reporter.failures():
        run_step(declared, reporter, config, _references(declared, artifacts, shard))
        for output in outputs:
            page = declared.page if output == outputs[0] else None
            _write_output(artifacts[output], reporter.state.outputs[output], path, page)
    return reporter.state.outputs[declared.outputs[0]].address


def _references(declared: Step, artifacts: Mapping[str, Given], shard: str) -> Inputs:
    """References to the inputs of a step, or to one shard's file of an input that is read by shard."""
    references: dict[str, Reference | list[Reference]] = {}
    for name in declared.inputs:
        given = artifacts[name]
        file = f"{shard}.parquet" if shard and name in declared.sharded_inputs else None
        references[name] = (
            [_reference(address) for address in given] if isinstance(given, list) else _reference(given, file)
        )
    return references


def _reference(given: KfpArtifact | str, file: str | None = None) -> Reference:
    """The reference that an artifact's metadata carry, or that of an address. Raises InputError for neither."""
    if isinstance(given, str):
        _, record = load_record(given)
        return Reference(address=given, digest=record.digest, file=file)
    if "address" not in given.metadata:
        raise InputError(f"input artifact {given.name} carries no address: its step did not publish one")
    return Reference(address=given.metadata["address"], digest=given.metadata["digest"], file=file)


def _write_output(given: Given, reference: Reference, path: str, page: str | None) -> None:
    """Write an output's reference into the metadata of its KFP artifact, and its record or its page into the file."""
    assert not isinstance(given, str | list), "outputs are artifacts of KFP"
    given.metadata.update(address=reference.address, digest=reference.digest, path=path)
    store, record = load_record(reference.address)
    Path(given.path).write_bytes(_page(store, record, page) if page else record.to_json())


def _page(store: Store, record: Record, file: str) -> bytes:
    """A page that a step made. Raises InputError where it is gone."""
    return (stage(store, record, file).path / file).read_bytes()


@contextlib.contextmanager
def _shipping(reporter: StepReporter) -> Iterator[None]:
    """In a pod, where no driver does it, ship this step to MLflow while it goes on, if there is an MLflow."""
    uri = os.environ.get(environment.MLFLOW_TRACKING_URI)
    if not uri or environment.DRIVER_LOCK in os.environ:
        yield
        return
    from multiview import tracking

    plugin_run = os.environ.get(environment.MLFLOW_RUN_ID)
    with tracking.ship_step_live(reporter.store, reporter.run, reporter.state.path, uri, plugin_run):
        yield
