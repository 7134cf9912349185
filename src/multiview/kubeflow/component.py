"""The body of every component: reads KFP's artifacts, runs the step, and writes KFP's artifacts."""

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from multiview import environment, names
from multiview.artifacts import champions
from multiview.artifacts.record import Artifact, Reference, load_record
from multiview.artifacts.staging import stage
from multiview.artifacts.store import open_pod_store, open_store
from multiview.config.overrides import leaves, parse_settings
from multiview.errors import InputError, print_line, safe, without_secrets
from multiview.kubeflow.sigterm import killed_by_sigterm
from multiview.steps.execution import run_step
from multiview.steps.path import StepPath, shard_file
from multiview.steps.processors import follow_pod
from multiview.steps.runs import Run, RunReference, read_settings, run_id, write_run
from multiview.steps.step import Step, load_function
from multiview.steps.table import step
from multiview.steps.work import Inputs, StepReporter

KfpArtifact: TypeAlias = Any
"""An artifact of KFP's, with `name`, `path` and `metadata`: multiview does not import kfp."""
Given: TypeAlias = KfpArtifact
"""A KFP artifact, an address or a reference as JSON, or a list of addresses: KFP compiles no list of artifacts."""


@contextlib.contextmanager
def exit_with_one_line() -> Iterator[None]:
    """Ends the process with only an InputError's line, as a command does, instead of a traceback."""
    try:
        yield
    except InputError as error:
        sys.exit(f"error: {error}")


@exit_with_one_line()
def execute(
    name: str, run: str, path: str, config: str, *, shard: str = "", there: str = "{}", **artifacts: Given
) -> str:
    """Runs a step, or finds its outputs, and returns the address of its first output.

    - `name` is the step's name in the table of steps, which declares its inputs and outputs, given as `artifacts`.
    - `run` is the JSON of a `runs.RunReference`, or the address of a store, where the step becomes a run of its own.
    - `config` is the JSON of the settings that the step reads, or settings as `--set` takes them. It is empty in a run
      that its first step has opened; the settings are then read from the store.
    - `path` is the step's path in the run, by default its name. A `shard` is appended to it; the step then reads only
      that shard's file of its `sharded_inputs`.
    - `there` is JSON: for each input, the addresses of all shards in order, null for a shard that the input lists.

    An input's metadata hold its `address`, and its `digest` unless any content will do. An output's metadata receive
    its `address`, its `digest` and the step's `path`; its file becomes a copy of its record, or a report's page, which
    Kubeflow shows. A step with figures has one more output, `metrics`, whose metadata are the figures.

    Raises every exception of the step except InputError, whose line ends the process.
    """
    follow_pod()
    declared = step(name)
    for listed, addresses in json.loads(there).items():
        artifacts[listed] = [address or artifacts[listed].pop(0) for address in addresses]
    outputs = (*declared.outputs, *declared.forwards)
    whole = StepPath.parse(path or name)
    path, alone = str(whole.of_shard(shard)), not _is_json(run)
    if (alone or config) and not _is_json(config):
        config = configured(declared, config)
    if alone:
        context = _begin_alone(declared, run, path, config, artifacts)
    else:
        context = RunReference.model_validate_json(run)
    store = open_store(context.store)
    config = config or read_settings(store, context.run, str(whole))
    reporter = StepReporter(store, context.run, path, name, context.pages)
    reporter.log = print_line
    uri = os.environ.get(environment.MLFLOW_TRACKING_URI)
    with _shipping(reporter, alone, uri), killed_by_sigterm(reporter, uri), reporter.failures():
        run_step(declared, reporter, config, _references(declared, artifacts, shard))
        for output in outputs:
            _write_output(artifacts[output], reporter.state.outputs[output], path)
        if declared.figures_path:
            first = load_record(reporter.state.outputs[outputs[0]].address)
            figures, metrics = load_function(declared.figures_path)(*first), artifacts[names.METRICS]
            metrics.metadata.update(figures)
            Path(metrics.path).write_text(json.dumps(figures, indent=1) + "\n")
    return reporter.state.outputs[declared.outputs[0]].address


def _references(declared: Step, artifacts: Mapping[str, Given], shard: str) -> Inputs:
    """Returns references to a step's inputs; for a shard, to that shard's file of each input that is read by shard. Raises
    InputError if the pipeline lacks an input or output."""
    figures = [names.METRICS] if declared.figures_path else []
    for name in (*declared.inputs, *declared.outputs, *declared.forwards, *figures):
        if name not in artifacts:
            raise InputError(
                f"{declared.name} is not given {name}: this pipeline was compiled by another version of multiview; submit it, "
                "or apply its schedule, again"
            )
    references: dict[str, Reference | list[Reference]] = {}
    for name in declared.inputs:
        artifact = artifacts[name]
        file = shard_file(shard) if shard and name in declared.sharded_inputs else None
        listed = isinstance(artifact, list)
        references[name] = [*map(_reference, artifact)] if listed else _reference(artifact, file)
    return references


def _reference(artifact: KfpArtifact | str, file: str | None = None) -> Reference:
    """Returns the reference in an artifact's metadata or in JSON, or to an address. Raises InputError for none."""
    if isinstance(artifact, str) and _is_json(artifact):
        return Reference.model_validate_json(artifact).model_copy(update={"file": file})
    if isinstance(artifact, str):
        _, record = load_record(artifact)
        return Reference(address=artifact, digest=record.digest, file=file)
    if "address" not in artifact.metadata:
        raise InputError(f"input artifact {artifact.name} carries no address: its step did not publish one")
    address = artifact.metadata["address"]
    digest = artifact.metadata.get("digest") or load_record(address)[1].digest
    return Reference(address=address, digest=digest, file=file)


def configured(declared: Step, text: str) -> str:
    """Returns the canonical JSON of the settings that a step reads, from a text in the form of `--set`. Any step may be
    given `model.architecture`, which decides defaults; any other setting that it does not read raises InputError."""
    from multiview.model.systems import resolve  # and pyarrow, which must follow the pod

    overrides = parse_settings(text)
    for leaf in leaves(overrides):
        if leaf != "model.architecture" and not declared.reads(leaf):
            raise InputError(
                f"{leaf} is not read by {declared.name}, which reads {', '.join(declared.settings)}"
            )
    return declared.configure(resolve(overrides))


def _begin_alone(
    declared: Step, store: str, path: str, config: str, artifacts: Mapping[str, Given]
) -> RunReference:
    """Writes a run of one step into a store: the same step with the same settings and inputs is the same run."""
    opened, given = open_pod_store(store), json.loads(config)
    opened.check_writable()
    inputs = {
        name: [reference.digest for reference in (found if isinstance(found, list) else [found])]
        for name, found in _references(declared, artifacts, "").items()
    }
    identity = run_id(declared.name, given, {declared.name: declared.version}, path=path, inputs=inputs)
    write_run(opened, Run(id=identity, pipeline=declared.name, config=given, steps=[path]))
    return RunReference(store=opened.url, run=identity)


def _is_json(text: str) -> bool:
    return text.lstrip().startswith("{")


def open_index(address: str, **artifacts: KfpArtifact) -> str:
    """Passes on the `index` at an address, or of a store's champion, with its `model` and `passages`. Returns the
    address of the passages' Parquet files, as `corpus.source` takes it. Raises InputError if the address is neither an
    index's nor that of a store with a champion."""
    from multiview.serving.retriever import load_artifacts

    index, model, passages = load_artifacts(_load_index(address).address)
    for name, found in ((names.INDEX, index), (names.MODEL, model), (names.PASSAGES, passages)):
        _write_output(artifacts[name], found.reference, "")
    return f"{passages.store.url}/{passages.record.data}"


def _load_index(address: str) -> Artifact:
    """Returns the artifact at an address, or the index of a store's champion."""
    at = open_store(address)
    if champion := champions.current(at):
        return champion.load(at)[names.INDEX]
    try:
        return load_record(address)
    except InputError as error:
        raise InputError(f"{error}; nor is it a store with a champion") from error


def _write_output(artifact: KfpArtifact, reference: Reference, path: str) -> None:
    """Writes an output's reference into the metadata of its KFP artifact, and its record or a report's page into the file."""
    artifact.metadata.update(address=reference.address, digest=reference.digest, path=path)
    store, record = load_record(reference.address)
    page = names.REPORT_PAGE_FILE if record.kind == names.REPORT else None
    content = (stage(store, record, page).path / page).read_bytes() if page else record.to_json()
    Path(artifact.path).write_bytes(content)


@contextlib.contextmanager
def _shipping(reporter: StepReporter, alone: bool, uri: str | None) -> Iterator[None]:
    """Ships this step to MLflow while it runs, if a server is set; a step `alone` in its run also ships the run's end."""
    if not uri:
        yield
        return
    from multiview import tracking

    _compare_servers(uri)
    try:
        with tracking.ship_step_live(reporter.store, reporter.run, reporter.state.path, uri):
            yield
    finally:
        if alone:
            with contextlib.suppress(Exception):  # `multiview sync` ships it later
                tracking.ship(reporter.store, reporter.run, uri)


def _compare_servers(uri: str) -> None:
    """Warns if KFP's MLflow plugin has replaced the MLflow server of the pod's settings."""
    pod_uri = os.environ.get(environment.MLFLOW_URI, uri)
    if pod_uri != uri:
        line = (
            f"this step is recorded in {uri}, which Kubeflow's MLflow plugin gives, and not in {pod_uri}: "
            "set kubeflow.mlflow_uri to the plugin's server, or let the plugin not inject its environment"
        )
        print(f"warning: {safe(without_secrets(line))}", file=sys.stderr)
