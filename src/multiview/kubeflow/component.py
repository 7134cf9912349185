"""The body of every pipeline component: reads KFP artifacts, does or finds a step, writes addresses and records."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from multiview import environment, names
from multiview.artifacts.record import Record, Reference, load_record
from multiview.artifacts.staging import stage
from multiview.artifacts.store import Store, open_store
from multiview.errors import InputError
from multiview.steps.execution import run_step, watch_driver
from multiview.steps.path import StepPath
from multiview.steps.reporter import StepReporter
from multiview.steps.runs import Context, read_settings
from multiview.steps.step import Step, load_function
from multiview.steps.table import step
from multiview.steps.work import Inputs


class KfpArtifact(Protocol):
    """The attributes used of a KFP artifact."""

    @property
    def name(self) -> str | None: ...

    @property
    def path(self) -> str: ...

    @property
    def metadata(self) -> dict[str, Any]: ...


Given = KfpArtifact | str | list[str]
"""A KFP artifact, an address, or a list of addresses: KFP compiles no list of artifacts."""


def execute(name: str, run: str, path: str, config: str, *, shard: str = "", **artifacts: Given) -> str:
    """Does a step, or finds its outputs, and passes on the addresses of its outputs.

    - `name` is the step's name in the table of steps; its declaration says which `artifacts` are inputs and which
      are outputs.
    - `run` is the JSON of a `runs.Context`, `config` the JSON of the settings that the step reads. If this start of the
      run was given other settings, they are read from the store instead.
    - `path` is the step's path in the run. A `shard` is appended to it; the step then reads only that shard's file
      of its `sharded_inputs`.

    The metadata of an input contain its `address` and `digest`. The metadata of an output receive its `address` and
    `digest`, and the step's `path`. The file of an output becomes a copy of the record, or the step's page: Kubeflow
    shows the file of an HTML artifact. A step with figures has a further output `metrics`, whose metadata are the
    figures: Kubeflow shows them beside the run, and beside each other where runs are compared.

    Returns the address of the first output. Raises TypeError for artifacts other than the declared ones, InputError
    for an input without an address, and every exception of the step.
    """
    declared, context = step(name), Context.model_validate_json(run)
    outputs = (*declared.outputs, *declared.forwards)
    expected = (*declared.inputs, *outputs, *([names.METRICS] if declared.figures else []))
    if set(artifacts) != set(expected):
        raise TypeError(f"step {name} has artifacts {expected}, not {tuple(artifacts)}")
    store = open_store(context.store)
    if context.changed:
        config = read_settings(store, context.run, path)
    path = str(StepPath.parse(path).of_shard(shard))
    reporter = StepReporter(store, context.run, path, name)
    watch_driver()
    with _shipping(reporter), reporter.failures():
        run_step(declared, reporter, config, _references(declared, artifacts, shard))
        for output in outputs:
            page = declared.page if output == outputs[0] else None
            _write_output(artifacts[output], reporter.state.outputs[output], path, page)
        if declared.figures:
            figures = load_function(declared.figures)
            _write_figures(artifacts[names.METRICS], figures, reporter.state.outputs[outputs[0]])
    return reporter.state.outputs[declared.outputs[0]].address


def _references(declared: Step, artifacts: Mapping[str, Given], shard: str) -> Inputs:
    """Returns references to the inputs of a step, or to one shard's file of each input that is read by shard."""
    references: dict[str, Reference | list[Reference]] = {}
    for name in declared.inputs:
        artifact = artifacts[name]
        file = f"{shard}.parquet" if shard and name in declared.sharded_inputs else None
        references[name] = (
            [_reference(address) for address in artifact]
            if isinstance(artifact, list)
            else _reference(artifact, file)
        )
    return references


def _reference(artifact: KfpArtifact | str, file: str | None = None) -> Reference:
    """Returns the reference in an artifact's metadata, or to an address. Raises InputError if there is neither."""
    if isinstance(artifact, str):
        _, record = load_record(artifact)
        return Reference(address=artifact, digest=record.digest, file=file)
    if "address" not in artifact.metadata:
        raise InputError(f"input artifact {artifact.name} carries no address: its step did not publish one")
    return Reference(address=artifact.metadata["address"], digest=artifact.metadata["digest"], file=file)


def _write_output(artifact: Given, reference: Reference, path: str, page: str | None) -> None:
    """Writes an output's reference into the metadata of its KFP artifact, and its record or its page into the file."""
    assert not isinstance(artifact, str | list), "outputs are artifacts of KFP"
    artifact.metadata.update(address=reference.address, digest=reference.digest, path=path)
    store, record = load_record(reference.address)
    Path(artifact.path).write_bytes(_page(store, record, page) if page else record.to_json())


def _write_figures(artifact: Given, figures: Callable[..., dict[str, float]], reference: Reference) -> None:
    """Writes the figures of an output into the metadata and the file of a KFP artifact."""
    assert not isinstance(artifact, str | list), "outputs are artifacts of KFP"
    found = figures(*load_record(reference.address))
    artifact.metadata.update(found)
    Path(artifact.path).write_text(json.dumps(found, indent=1) + "\n")


def _page(store: Store, record: Record, file: str) -> bytes:
    """Returns the bytes of a step's page. Raises InputError if it is gone."""
    return (stage(store, record, file).path / file).read_bytes()


@contextlib.contextmanager
def _shipping(reporter: StepReporter) -> Iterator[None]:
    """Ships this step to MLflow while it runs, in a pod without a driver and if there is an MLflow."""
    uri = os.environ.get(environment.MLFLOW_TRACKING_URI)
    if not uri or environment.DRIVER_LOCK in os.environ:
        yield
        return
    from multiview import tracking

    plugin_run = os.environ.get(environment.MLFLOW_RUN_ID)
    with tracking.ship_step_live(reporter.store, reporter.run, reporter.state.path, uri, plugin_run):
        yield
