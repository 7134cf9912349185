"""What MLflow is told of one step: its settings, events, inputs and outputs."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable
from typing import Any

from multiview import names
from multiview.artifacts.record import Reference, read_record, split_address
from multiview.artifacts.staging import stage
from multiview.artifacts.store import Store
from multiview.events import read_events
from multiview.runs import Run, StepState

DIGEST_LENGTH = 32
"""MLflow takes dataset digests of at most 36 characters; the whole one is in a tag."""

READ = (names.EVALUATION, names.COMPARISON, names.QUERY_EVALUATION, names.REPORT)
"""Kinds of artifacts with files that a person reads."""


class Contents:
    """Fills a step's MLflow run. Every call may be the last before a kill, and none is repeated."""

    def __init__(self, store: Store, run: Run, client: Any, experiment: str):
        self.store, self.run, self.client, self.experiment = store, run, client, experiment

    def tell_events(self, parent: str, child: Any, state: StepState) -> None:
        """Parameters, metrics and tags; an evaluation's metrics also stand in the parent.

        The tag that counts shipped events comes last; metrics that were shipped without it are
        exact duplicates, which MLflow drops.
        """
        from mlflow.entities import Metric, Param, RunTag

        run, tags = child.info.run_id, child.data.tags
        events = list(read_events(self.store, state.attempt)) if state.attempt else []
        wanted = {names.TAG_KEY: state.key, names.TAG_ERROR: state.error}
        for name, references in state.inputs.items():
            for number, reference in enumerate(references):
                wanted[f"{names.INPUT_TAG}{name}.{number:03d}"] = reference.model_dump_json()
        for kind, reference in state.outputs.items():
            wanted[f"{names.OUTPUT_TAG}{kind}"] = reference.model_dump_json()
        for number, event in enumerate(event for event in events if event["event"] == "warning"):
            wanted[f"{names.WARNING_TAG}{number}"] = event["text"]
        wanted[names.TAG_SHIPPED] = str(len(events))
        link = self._evaluated(state)
        done = int(tags.get(names.TAG_SHIPPED, 0))
        metrics = [
            Metric(event["name"], event["value"], event["time"], event["step"] or 0, **link)
            for event in events[done:]
            if event["event"] == "metric"
        ]
        parameters = {n: v for n, v in flatten(state.config) if n not in child.data.params}
        new = {k: v[:8000] for k, v in wanted.items() if v and tags.get(k) != v[:8000]}
        for part in parts(list(parameters.items()), 100):
            self.client.log_batch(run, params=[Param(n, v[:6000]) for n, v in part])
        for part in parts(metrics, 1000):
            self.client.log_batch(run, metrics=part)
        if state.step.startswith("evaluate") and metrics:
            prefix = "" if len(self.run.architectures) == 1 else f"{state.path.split('/')[0]}/"
            named = [Metric(f"{prefix}{m.key}", m.value, m.timestamp, m.step) for m in metrics]
            self.client.log_batch(parent, metrics=named)
        for part in parts(list(new.items()), 100):
            self.client.log_batch(run, tags=[RunTag(k, v) for k, v in part])
        if names.TAG_ERROR in tags and not state.error:
            self.client.delete_tag(run, names.TAG_ERROR)

    def _evaluated(self, state: StepState) -> dict[str, str]:
        """The model and the questions that an evaluation's metrics carry."""
        models, questions = state.inputs.get("model"), state.inputs.get("questions")
        if state.step != "evaluate" or state.status == "found" or not models or not questions:
            return {}
        return {
            "model_id": self._model(models[0], None, state),
            "dataset_name": _dataset_name(questions[0]),
            "dataset_digest": questions[0].digest[:DIGEST_LENGTH],
        }

    def tell_links(self, child: Any, state: StepState) -> None:
        """Datasets and models that the step read, models that it made; each once."""
        from mlflow.entities import LoggedModelInput, LoggedModelOutput

        run, inputs, outputs = child.info.run_id, child.inputs, child.outputs
        known = {d.dataset.digest for d in inputs.dataset_inputs} if inputs else set()
        if datasets := [d for d in self._datasets(state) if d.dataset.digest not in known]:
            self.client.log_inputs(run, datasets=datasets)
        linked = {model.model_id for model in inputs.model_inputs} if inputs else set()
        for reference in (r for refs in state.inputs.values() for r in refs if _kind(r) == names.MODEL):
            model = self._model(reference, None, state)
            if model not in linked:
                self.client.log_inputs(run, models=[LoggedModelInput(model)])
        if reference := state.outputs.get(names.MODEL):
            model = self._model(reference, run, state)
            if model not in {made.model_id for made in (outputs.model_outputs if outputs else [])}:
                self.client.log_outputs(run, [LoggedModelOutput(model, 0)])

    def _model(self, reference: Reference, run: str | None, state: StepState) -> str:
        """The logged model with an artifact's digest, made if there is none."""
        found = self.client.search_logged_models(
            [self.experiment], filter_string=f"tags.sha256 = '{reference.digest}'"
        )
        model = found[0] if found else None
        if model is None:
            model = self.client.create_logged_model(
                self.experiment,
                name=state.path.replace("/", "-"),
                source_run_id=run,
                tags={"sha256": reference.digest, "address": reference.address},
                params=dict(flatten(state.config)),
                model_type="bi-encoder",
            )
        if str(model.status) != "READY":
            self.client.finalize_logged_model(model.model_id, "READY")
        return model.model_id

    def _datasets(self, state: StepState) -> list[Any]:
        from mlflow.data.dataset_source_registry import resolve_dataset_source
        from mlflow.data.meta_dataset import MetaDataset
        from mlflow.entities import DatasetInput, InputTag

        inputs = {}
        for name, references in state.inputs.items():
            for reference in references[:100]:
                if _kind(reference) == names.MODEL:
                    continue
                with warnings.catch_warnings():  # it warns that a local path is a local path twice over
                    warnings.simplefilter("ignore")
                    source = resolve_dataset_source(reference.address)
                dataset = MetaDataset(
                    source, name=_dataset_name(reference), digest=reference.digest[:DIGEST_LENGTH]
                )
                tags = [InputTag("mlflow.data.context", name), InputTag("sha256", reference.digest)]
                inputs[dataset.digest] = DatasetInput(dataset._to_mlflow_entity(), tags)
        return list(inputs.values())

    def tell_files(self, parent: str, child: Any, state: StepState) -> None:
        """Records of all outputs, and the files that a person reads: metrics and tables; a report also in the parent."""
        if not state.outputs or names.TAG_FILES in child.data.tags:
            return
        run = child.info.run_id
        for kind, reference in state.outputs.items():
            _, _, key = split_address(reference.address)
            record = read_record(self.store, kind, key)
            if record is None:
                continue
            self.client.log_text(run, record.to_json().decode(), f"{kind}/{names.RECORD_FILE}")
            if kind in READ:
                folder = stage(self.store, record).path
                for file in record.files:
                    if file.path.endswith((".json", ".md", ".html", ".trec")):
                        place = f"{kind}/{file.path}".rpartition("/")[0]
                        for told in (run, parent) if kind == names.REPORT else (run,):
                            self.client.log_artifact(told, str(folder / file.path), place)
        self.client.set_tag(run, names.TAG_FILES, len(state.outputs))


def _kind(reference: Reference) -> str:
    return split_address(reference.address)[1]


def _dataset_name(reference: Reference) -> str:
    _, kind, key = split_address(reference.address)
    return f"{kind}-{key[:8]}" + (f"/{reference.file}" if reference.file else "")


def flatten(config: dict[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for name, value in config.items():
        if isinstance(value, dict) and value:
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value if isinstance(value, str) else json.dumps(value)


def parts(items: list[Any], size: int) -> Iterable[list[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))
