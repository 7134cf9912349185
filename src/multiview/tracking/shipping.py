"""From a run's state and event files to MLflow runs."""

from __future__ import annotations

import hashlib
import json
import tempfile
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from filelock import FileLock

from multiview import names
from multiview.artifacts.record import Reference, read_record, split_address
from multiview.artifacts.staging import stage
from multiview.artifacts.store import LocalStore, Store
from multiview.events import read_events
from multiview.runs import Run, StepState, read_run, read_states
from multiview.tracking.client import RUN_FILE, children_of, connect

DIGEST_LENGTH = 32
"""MLflow takes dataset digests of at most 36 characters; the whole one is in a tag."""


def ship(store: Store, run_id: str, uri: str) -> bool:
    """Bring MLflow up to date with one run of a store; False if there was nothing new.

    Shippers of one machine take turns by a file lock: MLflow's SQLite store must not be opened
    by two processes while it is new.
    """
    name = hashlib.sha256(uri.encode()).hexdigest()[:16]
    with FileLock(Path(tempfile.gettempdir()) / f"multiview-ship-{name}.lock"):
        run, states = read_run(store, run_id), list(read_states(store, run_id))
        mark, marker = _fingerprint(store, states, uri), f"{names.RUNS}/{run_id}/shipped"
        if store.read(marker) == mark:
            return False
        _Shipper(store, run, uri).ship(sorted(states, key=lambda state: state.started))
        store.replace(marker, mark)
        return True


def sync(store: Store, uri: str) -> list[str]:
    """Ship every run of a store; ids of those that had something new."""
    return [run for run in store.folders(names.RUNS) if ship(store, run, uri)]


class _Shipper:
    """One run's way into MLflow."""

    def __init__(self, store: Store, run: Run, uri: str):
        self.store, self.run = store, run
        self.client = connect(uri)
        self.experiment = self._experiment(uri)

    def ship(self, states: list[StepState]) -> None:
        parent = self._parent()
        children = {
            c.data.tags[names.TAG_PATH]: c for c in children_of(self.client, [self.experiment], parent)
        }
        for state in states:
            child = children.get(state.path)
            if (
                child is not None
                and state.key
                and child.data.tags.get(names.TAG_KEY) not in (None, state.key)
            ):
                self.client.delete_run(child.info.run_id)  # an earlier content of this step
                child = None
            child = child or self._child(parent, state)
            self._bring_up_to_date(child, state)
        self._end(parent, states)

    def _experiment(self, uri: str) -> str:
        if found := self.client.get_experiment_by_name(names.EXPERIMENT):
            return found.experiment_id
        local = uri.startswith("sqlite") and isinstance(self.store, LocalStore)
        where = f"{self.store.url}/mlflow" if local else None
        return self.client.create_experiment(names.EXPERIMENT, artifact_location=where)

    def _parent(self) -> str:
        runs = self.client.search_runs([self.experiment], f"tags.`{names.TAG_RUN}` = '{self.run.id}'")
        if found := [r for r in runs if names.TAG_STEP not in r.data.tags]:
            return found[0].info.run_id
        tags = {
            names.TAG_RUN: self.run.id,
            names.TAG_PIPELINE: self.run.pipeline,
            names.TAG_STORE: self.store.url,
            names.TAG_PRESET: self.run.preset,
            names.TAG_GIT: self.run.git_sha,
            names.TAG_RERUN_OF: self.run.rerun_of,
        }
        created = self.client.create_run(
            self.experiment, tags={k: v for k, v in tags.items() if v}, run_name=self.run.id
        )
        self.client.log_text(created.info.run_id, self.run.model_dump_json(indent=1), RUN_FILE)
        return created.info.run_id

    def _child(self, parent: str, state: StepState) -> Any:
        system = state.path.split("/")[0] if "/" in state.path else None
        tags = {
            "mlflow.parentRunId": parent,
            names.TAG_RUN: self.run.id,
            names.TAG_PIPELINE: self.run.pipeline,
            names.TAG_PATH: state.path,
            names.TAG_STEP: state.step,
            names.TAG_SYSTEM: system,
            names.TAG_GIT: self.run.git_sha,
            names.TAG_PRESET: self.run.preset,
        }
        return self.client.create_run(
            self.experiment,
            start_time=round(state.started * 1000),
            tags={k: v for k, v in tags.items() if v},
            run_name=state.path,
        )

    def _bring_up_to_date(self, child: Any, state: StepState) -> None:
        from mlflow.entities import Metric, Param, RunTag

        run, tags = child.info.run_id, child.data.tags
        wanted = {names.TAG_KEY: state.key, names.TAG_ERROR: state.error}
        for name, references in state.inputs.items():
            for number, reference in enumerate(references):
                wanted[f"{names.INPUT_TAG}{name}.{number:03d}"] = reference.model_dump_json()
        for kind, reference in state.outputs.items():
            wanted[f"{names.OUTPUT_TAG}{kind}"] = reference.model_dump_json()
        events = list(read_events(self.store, state.attempt)) if state.attempt else []
        done = _shipped(tags, state.attempt)
        model, dataset = self._links(run, tags, state)
        metrics = []
        for event in events[done:]:
            if event["event"] == "metric":
                link = {"model_id": model, **dataset} if model else {}
                metrics.append(
                    Metric(event["name"], event["value"], event["time"], event["step"] or 0, **link)
                )
            elif event["event"] == "warning":
                wanted[
                    f"{names.WARNING_TAG}{len([t for t in [*tags, *wanted] if t.startswith(names.WARNING_TAG)])}"
                ] = event["text"]
        wanted[names.TAG_SHIPPED] = json.dumps([state.attempt, len(events)])
        new = {k: str(v)[:8000] for k, v in wanted.items() if v and tags.get(k) != str(v)[:8000]}
        parameters = {n: v for n, v in _flatten(state.config) if n not in child.data.params}
        for part in _parts(list(parameters.items()), 100):
            self.client.log_batch(run, params=[Param(n, v[:6000]) for n, v in part])
        for part in _parts(metrics, 1000):
            self.client.log_batch(run, metrics=part)
        for part in _parts(list(new.items()), 100):
            self.client.log_batch(run, tags=[RunTag(k, v) for k, v in part])
        if state.status != "running" and child.info.status == "RUNNING":
            if state.status != "failed":
                self._files(run, state)
            status = "FAILED" if state.status == "failed" else "FINISHED"
            self.client.set_terminated(run, status, round((state.ended or state.started) * 1000))

    def _links(self, run: str, tags: dict[str, str], state: StepState) -> tuple[str | None, dict[str, str]]:
        """Log datasets and models once; the model and dataset that an evaluation's metrics carry."""
        from mlflow.entities import LoggedModelInput, LoggedModelOutput

        first = names.TAG_SHIPPED not in tags
        if first and (datasets := self._datasets(state)):
            self.client.log_inputs(run, datasets=datasets)
        models = [r for n, refs in state.inputs.items() for r in refs if _kind(r) == names.MODEL]
        model = self._model(models[0], None, state) if models else None
        if model and f"{names.INPUT_TAG}model.000" not in tags and first:
            self.client.log_inputs(run, models=[LoggedModelInput(model)])
        if names.MODEL in state.outputs and f"{names.OUTPUT_TAG}{names.MODEL}" not in tags:
            made = self._model(state.outputs[names.MODEL], run, state)
            self.client.log_outputs(run, [LoggedModelOutput(made, 0)])
        questions = state.inputs.get("questions")
        if names.EVALUATION not in state.outputs or not questions:
            return None, {}
        return model, {
            "dataset_name": _dataset_name(questions[0]),
            "dataset_digest": questions[0].digest[:DIGEST_LENGTH],
        }

    def _model(self, reference: Reference, run: str | None, state: StepState) -> str:
        """The logged model with an artifact's digest, made if there is none."""
        found = self.client.search_logged_models(
            [self.experiment], filter_string=f"tags.sha256 = '{reference.digest}'"
        )
        if found:
            return found[0].model_id
        created = self.client.create_logged_model(
            self.experiment,
            name=state.path.replace("/", "-"),
            source_run_id=run,
            tags={"sha256": reference.digest, "address": reference.address},
            params=dict(_flatten(state.config)),
            model_type="bi-encoder",
        )
        self.client.finalize_logged_model(created.model_id, "READY")
        return created.model_id

    def _datasets(self, state: StepState) -> list[Any]:
        from mlflow.data.dataset_source_registry import resolve_dataset_source
        from mlflow.data.meta_dataset import MetaDataset
        from mlflow.entities import DatasetInput, InputTag

        inputs = []
        for name, references in state.inputs.items():
            for reference in references[:100]:
                if _kind(reference) == names.MODEL:
                    continue
                with warnings.catch_warnings():  # it warns that a local path is a local path twice over
                    warnings.simplefilter("ignore")
                    source = resolve_dataset_source(reference.address)
                dataset = MetaDataset(
                    source,
                    name=_dataset_name(reference),
                    digest=reference.digest[:DIGEST_LENGTH],
                )
                tags = [
                    InputTag("mlflow.data.context", name),
                    InputTag("sha256", reference.digest),
                ]
                inputs.append(DatasetInput(dataset._to_mlflow_entity(), tags))
        return inputs

    def _files(self, run: str, state: StepState) -> None:
        """Records of all outputs, and the files that a person reads: metrics and tables."""
        for kind, reference in state.outputs.items():
            _, _, key = split_address(reference.address)
            record = read_record(self.store, kind, key)
            if record is None:
                continue
            self.client.log_text(run, record.to_json().decode(), f"{kind}/{names.RECORD_FILE}")
            if kind in (names.EVALUATION, names.COMPARISON):
                folder = stage(self.store, record).path
                for file in record.files:
                    if file.path.endswith((".json", ".md", ".html", ".trec")):
                        self.client.log_artifact(run, str(folder / file.path), kind)

    def _end(self, parent: str, states: Iterable[StepState]) -> None:
        statuses = {state.path: state.status for state in states}
        if "failed" in statuses.values():
            status = "FAILED"
        elif set(self.run.steps) <= {p for p, s in statuses.items() if s in ("done", "found")}:
            status = "FINISHED"
        else:
            status = "RUNNING"
        if self.client.get_run(parent).info.status != status:
            ends = [state.ended for state in states if state.ended]
            if status == "RUNNING":
                self.client.update_run(parent, status=status)
            else:
                self.client.set_terminated(parent, status, round(max(ends, default=0) * 1000))


def _fingerprint(store: Store, states: Iterable[StepState], uri: str) -> bytes:
    parts = [uri]
    for state in sorted(states, key=lambda s: s.path):
        events = sum(1 for _ in read_events(store, state.attempt)) if state.attempt else 0
        ended = "running" if state.status == "running" else state.status == "failed"
        parts.append(f"{state.path} {state.key} {state.attempt} {ended} {events}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest().encode()


def _shipped(tags: dict[str, str], attempt: str) -> int:
    shipped = json.loads(tags.get(names.TAG_SHIPPED, "[]"))
    return shipped[1] if shipped and shipped[0] == attempt else 0


def _kind(reference: Reference) -> str:
    return split_address(reference.address)[1]


def _dataset_name(reference: Reference) -> str:
    _, kind, key = split_address(reference.address)
    return f"{kind}-{key[:8]}" + (f"/{reference.file}" if reference.file else "")


def _flatten(config: dict[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for name, value in config.items():
        if isinstance(value, dict) and value:
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value if isinstance(value, str) else json.dumps(value)


def _parts(items: list[Any], size: int) -> Iterable[list[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))
