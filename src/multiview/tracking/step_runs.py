"""The content of a step's MLflow run: its settings, events, inputs and outputs."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from multiview import names
from multiview.artifacts.record import Reference, load_reference
from multiview.artifacts.staging import stage
from multiview.artifacts.store import Store
from multiview.errors import InputError
from multiview.steps.events import MetricEvent, WarningEvent, read_events
from multiview.steps.runs import StepState
from multiview.steps.table import STEPS
from multiview.tracking.mlflow_runs import fill, parameters, set_status, settle_files, status_of
from multiview.tracking.shipment import Shipment
from multiview.tracking.tags import model_tags, references_of, step_tags

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run as MlflowRun

DIGEST_LENGTH = 32
"""MLflow takes dataset digests of at most 36 characters; a tag has the whole digest."""
DATASETS = 100
"""Most artifacts of an input that are logged, such as shards."""

READABLE = (names.EVALUATION, names.COMPARISON, names.REPORT, names.VERDICT, names.PROMOTION)
"""Kinds of artifacts with files for people to read."""


def fill_step(shipment: Shipment, parent: str, child: MlflowRun, state: StepState) -> None:
    """Brings a step's MLflow run up to date. One that is complete is left alone."""
    if names.TAG_COMPLETE in child.data.tags:
        return
    _log_events(shipment, child, state)
    _link(shipment, child, state)
    log_files(shipment.store, shipment.client, parent, child, state)
    settle_files(child)
    if names.REPORT in state.outputs:
        settle_files(shipment.client.get_run(parent))
    status = status_of([state], [state.path], shipment.ended)
    set_status(shipment.client, child, status, state.ended or state.started)
    if status == "FINISHED":
        shipment.client.set_tag(child.info.run_id, names.TAG_COMPLETE, "true")


def _log_events(shipment: Shipment, child: MlflowRun, state: StepState) -> None:
    """Logs a step's parameters, metrics and tags; the tag that counts shipped events comes last. Metrics that an
    earlier call shipped without that tag are shipped again as exact duplicates, which MLflow drops."""
    events = list(read_events(shipment.store, state.attempt)) if state.attempt else []
    # A resumed step gives its warnings once more.
    warnings = list(dict.fromkeys(event.text for event in events if isinstance(event, WarningEvent)))
    first = next((output.record_in(shipment.store) for output in state.outputs.values()), None)
    tags = step_tags(state, first, warnings, shipment.corpus)
    tags[names.TAG_SHIPPED] = str(len(events))
    link = _evaluated(shipment, child.info.run_id, state)
    shipped = int(child.data.tags.get(names.TAG_SHIPPED, 0))
    metrics = [event for event in events[shipped:] if isinstance(event, MetricEvent)]
    fill(shipment.client, child, parameters(state.config), metrics, tags, **link)


def _evaluated(shipment: Shipment, run: str, state: StepState) -> dict[str, str]:
    """The model and questions to link an evaluation's metrics to; empty for other steps, or if another run has them."""
    models, questions = state.inputs.get("model"), state.inputs.get("questions")
    if state.step != "evaluate" or not models or not questions:
        return {}
    model, digest = _logged_model(shipment, models[0], None, state), questions[0].digest[:DIGEST_LENGTH]
    logged = shipment.client.get_logged_model(model).metrics or [] if state.status == "found" else []
    if any(metric.run_id != run and metric.dataset_digest == digest for metric in logged):
        return {}
    return {"model_id": model, "dataset_name": _dataset_name(questions[0]), "dataset_digest": digest}


def _link(shipment: Shipment, child: MlflowRun, state: StepState) -> None:
    """Links the datasets and models that the step read, and the models that it made, each once."""
    from mlflow.entities import LoggedModelInput, LoggedModelOutput

    client, run, inputs, outputs = shipment.client, child.info.run_id, child.inputs, child.outputs
    _log_datasets(client, child, state.inputs)
    linked = {model.model_id for model in inputs.model_inputs} if inputs else set()
    for reference in (each for each in state.read if each.kind == names.MODEL):
        model = _logged_model(shipment, reference, None, state)
        if model not in linked:
            client.log_inputs(run, models=[LoggedModelInput(model)])
    reference = state.outputs.get(names.MODEL)
    if reference and names.MODEL in STEPS[state.step].outputs:
        model = _logged_model(shipment, reference, run, state)
        if model not in {made.model_id for made in (outputs.model_outputs if outputs else [])}:
            client.log_outputs(run, [LoggedModelOutput(model, 0)])


def _logged_model(shipment: Shipment, reference: Reference, run: str | None, state: StepState) -> str:
    """The id of the logged model with an artifact's digest, which is created if there is none."""
    client = shipment.client
    found = client.search_logged_models(
        [shipment.experiment], filter_string=f"tags.{names.TAG_SHA256} = '{reference.digest}'"
    )
    model = found[0] if found else None
    if model is None:
        tags = model_tags(shipment.run, state, reference, shipment.corpus)
        name, settings = state.path.replace("/", "-"), state.config
        if run is None:  # the step only read it, perhaps from another store
            with contextlib.suppress(InputError):
                made = load_reference(reference, "MLflow", shipment.store).record
                name, settings = f"{made.step}-{made.key[:8]}", made.config
        model = client.create_logged_model(
            shipment.experiment,
            name=name,
            source_run_id=run,
            tags={tag: value for tag, value in tags.items() if value},
            params=parameters(settings),
            model_type="bi-encoder",
        )
    if str(model.status) != "READY":
        client.finalize_logged_model(model.model_id, "READY")
    return model.model_id


def log_data(shipment: Shipment, parent: str) -> None:
    """Logs the passages and questions of a run as its datasets; if it only compares evaluations, those of the first."""
    logged = references_of(shipment.states)
    evaluation = next((each for each in logged if each.kind == names.EVALUATION), None)
    if evaluation and not any(each.kind == names.PASSAGES for each in logged):
        with contextlib.suppress(InputError):  # the evaluation is gone
            inputs = load_reference(evaluation, "MLflow", shipment.store).record.inputs
            logged = [reference for references in inputs.values() for reference in references]
    kinds = (names.PASSAGES, names.TRAIN_QUESTIONS, names.DEV_QUESTIONS)
    first = {reference.kind: reference for reference in reversed(logged)}
    there = [kind for kind in kinds if kind in first and not shipment.is_due(kind)]
    data = {kind: [first[kind].model_copy(update={"file": None})] for kind in there}
    _log_datasets(shipment.client, shipment.client.get_run(parent), data)


def _log_datasets(client: MlflowClient, run: MlflowRun, inputs: Mapping[str, list[Reference]]) -> None:
    """Logs inputs other than models as datasets of a run, each once, unless the run has them."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    known = {logged.dataset.digest for logged in run.inputs.dataset_inputs} if run.inputs else set()
    new = {}
    for name, references in inputs.items():
        for reference in (each for each in references[:DATASETS] if each.kind != names.MODEL):
            if (digest := reference.digest[:DIGEST_LENGTH]) in known:
                continue
            protocol, separator, _ = reference.address.partition("://")
            source = json.dumps({"uri": reference.address})
            dataset = Dataset(_dataset_name(reference), digest, protocol if separator else "local", source)
            tags = [InputTag("mlflow.data.context", name), InputTag(names.TAG_SHA256, reference.digest)]
            new[digest] = DatasetInput(dataset, tags)
    if new:
        client.log_inputs(run.info.run_id, datasets=list(new.values()))


def log_files(store: Store, client: MlflowClient, parent: str, child: MlflowRun, state: StepState) -> None:
    """Logs the records of all outputs, and the files for people to read; a report also to `parent`, the whole run's."""
    run = child.info.run_id
    for kind, reference in state.outputs.items():
        if (record := reference.record_in(store)) is None:
            continue
        client.log_text(run, record.to_json().decode(), f"{kind}/{names.RECORD_FILE}")
        if kind not in READABLE:
            continue
        folder = stage(store, record).path
        for file in record.files:
            if file.path.endswith((".json", ".md", ".html", ".trec")):
                for target in (run, parent) if kind == names.REPORT else (run,):
                    below = f"{kind}/{file.path}".rpartition("/")[0]
                    client.log_artifact(target, str(folder / file.path), below)


def _dataset_name(reference: Reference) -> str:
    return f"{reference.kind}-{reference.key[:8]}" + (f"/{reference.file}" if reference.file else "")
