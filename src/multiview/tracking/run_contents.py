"""The content of one step's MLflow run: its settings, events, inputs and outputs."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

from multiview import names
from multiview.artifacts.record import Record, Reference, load_reference, read_record, split_address
from multiview.artifacts.staging import stage
from multiview.artifacts.store import Store
from multiview.errors import InputError
from multiview.steps.events import MetricEvent, WarningEvent, read_events
from multiview.steps.path import StepPath
from multiview.steps.runs import Run, StepState
from multiview.steps.table import STEPS
from multiview.tracking import notes
from multiview.tracking.mlflow_runs import NOTE, fill, parameters
from multiview.tracking.tags import model_tags, step_tags

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import DatasetInput
    from mlflow.entities import Run as MlflowRun

DIGEST_LENGTH = 32
"""MLflow takes dataset digests of at most 36 characters; a tag has the whole digest."""

READ = (
    names.EVALUATION,
    names.COMPARISON,
    names.QUERY_EVALUATION,
    names.REPORT,
    names.VERDICT,
    names.PROMOTION,
)
"""Kinds of artifacts with files for people to read."""


class RunContents:
    """Fills a step's MLflow run. The process may be killed after any call to MLflow; no call is repeated."""

    def __init__(self, store: Store, run: Run, client: MlflowClient, experiment: str, corpus: str | None):
        self.store, self.run, self.client, self.experiment = store, run, client, experiment
        self.corpus = corpus

    def report_events(self, child: MlflowRun, state: StepState) -> None:
        """Logs a step's parameters, metrics and tags.

        The tag that counts shipped events comes last. Metrics that an earlier call shipped without that tag are
        shipped again as exact duplicates, which MLflow drops.
        """
        from mlflow.entities import Metric

        run = child.info.run_id
        events = list(read_events(self.store, state.attempt)) if state.attempt else []
        warnings = [event.text for event in events if isinstance(event, WarningEvent)]
        first = next((self._record(*output) for output in state.outputs.items()), None)
        tags = step_tags(self.run, state, first, warnings, self.corpus)
        tags[NOTE] = notes.of_step(self.run, state) if state.ended else None
        tags[names.TAG_SHIPPED] = str(len(events))
        link = self._evaluated(run, state)
        shipped = int(child.data.tags.get(names.TAG_SHIPPED, 0))
        metrics = [
            Metric(event.name, event.value, event.time, event.step or 0, **link)
            for event in events[shipped:]
            if isinstance(event, MetricEvent)
        ]
        fill(self.client, child, parameters(state.config), metrics, tags)

    def _record(self, kind: str, reference: Reference) -> Record | None:
        return read_record(self.store, kind, split_address(reference.address)[2])

    def _evaluated(self, run: str, state: StepState) -> dict[str, str]:
        """The model and the questions that an evaluation's metrics are linked to.

        Empty for other steps, and where another run has logged the same evaluation.
        """
        models, questions = state.inputs.get("model"), state.inputs.get("questions")
        if state.step != "evaluate" or not models or not questions:
            return {}
        model, digest = self._model(models[0], None, state), questions[0].digest[:DIGEST_LENGTH]
        logged = self.client.get_logged_model(model).metrics or [] if state.status == "found" else []
        if any(metric.run_id != run and metric.dataset_digest == digest for metric in logged):
            return {}
        return {"model_id": model, "dataset_name": _dataset_name(questions[0]), "dataset_digest": digest}

    def report_data(self, parent: str, states: list[StepState]) -> None:
        """Logs the passages and questions that a run's steps make or read as the datasets of its parent. A comparison
        of finished evaluations has those of the first evaluation."""
        kinds = (names.PASSAGES, names.TRAIN_QUESTIONS, names.DEV_QUESTIONS)
        references = [r for state in states for r in (*state.outputs.values(), *_read(state.inputs))]
        evaluations = [reference for reference in references if _kind(reference) == names.EVALUATION]
        if not any(_kind(reference) in kinds for reference in references) and evaluations:
            with contextlib.suppress(InputError):  # the evaluation is gone
                references = _read(load_reference(evaluations[0], "MLflow", self.store)[1].inputs)
        first = {_kind(reference): reference for reference in reversed(references)}
        used = {kind: [first[kind].model_copy(update={"file": None})] for kind in kinds if kind in first}
        if used:
            self._log_datasets(self.client.get_run(parent), used)

    def report_links(self, child: MlflowRun, state: StepState) -> None:
        """Links the datasets and models that the step read, and the models that it made, each once."""
        from mlflow.entities import LoggedModelInput, LoggedModelOutput

        run, inputs, outputs = child.info.run_id, child.inputs, child.outputs
        self._log_datasets(child, state.inputs)
        linked = {model.model_id for model in inputs.model_inputs} if inputs else set()
        for reference in (r for refs in state.inputs.values() for r in refs if _kind(r) == names.MODEL):
            model = self._model(reference, None, state)
            if model not in linked:
                self.client.log_inputs(run, models=[LoggedModelInput(model)])
        reference = state.outputs.get(names.MODEL)
        if reference and names.MODEL in STEPS[state.step].outputs:
            model = self._model(reference, run, state)
            if model not in {made.model_id for made in (outputs.model_outputs if outputs else [])}:
                self.client.log_outputs(run, [LoggedModelOutput(model, 0)])

    def _model(self, reference: Reference, run: str | None, state: StepState) -> str:
        """Id of the logged model with an artifact's digest, which is created if there is none."""
        found = self.client.search_logged_models(
            [self.experiment], filter_string=f"tags.{names.TAG_SHA256} = '{reference.digest}'"
        )
        model, path = found[0] if found else None, StepPath.parse(state.path)
        if model is None:
            tags = model_tags(self.run, state, reference, self.corpus)
            tags[NOTE] = notes.of_model(self.run, state, reference)
            model = self.client.create_logged_model(
                self.experiment,
                name=path.dashed,
                source_run_id=run,
                tags={tag: value for tag, value in tags.items() if value},
                params=parameters(state.config),
                model_type="bi-encoder",
            )
        if str(model.status) != "READY":
            self.client.finalize_logged_model(model.model_id, "READY")
        return model.model_id

    def _log_datasets(self, run: MlflowRun, used: Mapping[str, list[Reference]]) -> None:
        """Logs the datasets of `used` that the run does not have yet."""
        known = {d.dataset.digest for d in run.inputs.dataset_inputs} if run.inputs else set()
        if datasets := [d for d in self._datasets(used) if d.dataset.digest not in known]:
            self.client.log_inputs(run.info.run_id, datasets=datasets)

    def _datasets(self, used: Mapping[str, list[Reference]]) -> list[DatasetInput]:
        from mlflow.data.dataset_source_registry import resolve_dataset_source
        from mlflow.data.meta_dataset import MetaDataset
        from mlflow.entities import DatasetInput, InputTag

        inputs = {}
        for name, references in used.items():
            for reference in references[:100]:
                if _kind(reference) == names.MODEL:
                    continue
                with warnings.catch_warnings():  # MLflow warns of an ambiguous source for every local path
                    warnings.simplefilter("ignore")
                    source = resolve_dataset_source(reference.address)
                dataset = MetaDataset(
                    source, name=_dataset_name(reference), digest=reference.digest[:DIGEST_LENGTH]
                )
                tags = [InputTag("mlflow.data.context", name), InputTag(names.TAG_SHA256, reference.digest)]
                inputs[dataset.digest] = DatasetInput(dataset._to_mlflow_entity(), tags)
        return list(inputs.values())

    def report_files(self, parent: str, child: MlflowRun, state: StepState) -> None:
        """Logs the records of all outputs, and the files for people to read: metrics, tables and reports.

        A report is also logged in the parent.
        """
        if not state.outputs or names.TAG_FILES in child.data.tags:
            return
        run = child.info.run_id
        for kind, reference in state.outputs.items():
            if (record := self._record(kind, reference)) is None:
                continue
            self.client.log_text(run, record.to_json().decode(), f"{kind}/{names.RECORD_FILE}")
            if kind in READ:
                folder = stage(self.store, record).path
                for path in (
                    f.path for f in record.files if f.path.endswith((".json", ".md", ".html", ".trec"))
                ):
                    for target in (run, parent) if kind == names.REPORT else (run,):
                        self.client.log_artifact(
                            target, str(folder / path), f"{kind}/{path}".rpartition("/")[0]
                        )
        self.client.set_tag(run, names.TAG_FILES, len(state.outputs))


def _read(inputs: Mapping[str, list[Reference]]) -> list[Reference]:
    return [reference for references in inputs.values() for reference in references]


def _kind(reference: Reference) -> str:
    return split_address(reference.address)[1]


def _dataset_name(reference: Reference) -> str:
    _, kind, key = split_address(reference.address)
    return f"{kind}-{key[:8]}" + (f"/{reference.file}" if reference.file else "")
