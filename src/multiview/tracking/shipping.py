"""From a run's state and event files to MLflow runs."""

from __future__ import annotations

import getpass
import hashlib
import json
import tempfile
import warnings
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from filelock import FileLock

from multiview import names
from multiview.artifacts.record import Reference, read_record, split_address
from multiview.artifacts.staging import stage
from multiview.artifacts.store import LocalStore, Store
from multiview.errors import InputError
from multiview.events import read_events
from multiview.runs import Run, StepState, read_run, read_states
from multiview.tracking.client import RUN_FILE, children_of, connect, database, explained

DIGEST_LENGTH = 32
"""MLflow takes dataset digests of at most 36 characters; the whole one is in a tag."""
NO_ATTEMPT = "none"


def ship(store: Store, run_id: str, uri: str) -> bool:
    """Bring MLflow up to date with one run of a store; False if there was nothing new.

    Shippers of one machine take turns by a file lock, because MLflow's SQLite store must not be
    opened by two processes while it is new; those of different machines claim each MLflow run by
    an exclusively created file in the store. Raises InputError if MLflow cannot be reached.
    """
    name = hashlib.sha256(f"{getpass.getuser()} {uri}".encode()).hexdigest()[:16]
    with explained(uri), FileLock(Path(tempfile.gettempdir()) / f"multiview-ship-{name}.lock"):
        run, states = read_run(store, run_id), list(read_states(store, run_id))
        marker = f"{names.RUNS}/{run_id}/mlflow/shipped"
        if store.read(marker) == _fingerprint(store, states, uri):
            return False
        _Shipper(store, run, uri).ship(sorted(states, key=lambda state: state.started))
        store.replace(marker, _fingerprint(store, states, uri))
        return True


def sync(store: Store, uri: str) -> tuple[list[str], dict[str, str]]:
    """Ship every run of a store: ids of those that had something new, and what went wrong with others."""
    shipped, failed = [], {}
    runs = store.folders(names.RUNS)
    if not runs:
        raise InputError(f"store {store.url} has no runs: is it the right one?")
    for run in runs:
        try:
            if ship(store, run, uri):
                shipped.append(run)
        except InputError as error:
            failed[run] = str(error)
    return shipped, failed


class _Shipper:
    """One run's way into MLflow. Every call may be the last before a kill, and none is repeated."""

    def __init__(self, store: Store, run: Run, uri: str):
        self.store, self.run = store, run
        self.client = connect(uri)
        experiment = self._experiment(uri)
        self.experiment = experiment.experiment_id
        instance = f"{uri} {experiment.experiment_id} {experiment.creation_time}"
        self.claims = f"{names.RUNS}/{run.id}/mlflow/{hashlib.sha256(instance.encode()).hexdigest()[:16]}"

    def ship(self, states: list[StepState]) -> None:
        parent = self._parent()
        children = {child.info.run_id: child for child in children_of(self.client, self.experiment, parent)}
        for state in states:
            child = self._child(parent, state, children)
            if names.TAG_COMPLETE in child.data.tags:
                continue
            self._tell_events(parent, child, state)
            self._tell_links(child, state)
            self._tell_files(child, state)
            self._tell_status(child, state)
        self._end(parent, states)

    def _experiment(self, uri: str) -> Any:
        if found := self.client.get_experiment_by_name(names.EXPERIMENT):
            return found
        local = uri.startswith("sqlite") and isinstance(self.store, LocalStore)
        where = f"{self.store.url}/mlflow" if local else None
        return self.client.get_experiment(
            self.client.create_experiment(names.EXPERIMENT, artifact_location=where)
        )

    def _claimed(self, name: str, run_name: str, tags: dict[str, str | None], started: float | None) -> str:
        """The MLflow run of a name, made if there is none: the first shipper's, whoever races.

        One that was made by a shipper who was killed before claiming it is found by its tags.
        """
        path = f"{self.claims}/{name}"
        if (claimed := self.store.read(path)) is not None:
            return claimed.decode()
        found = self.client.search_runs([self.experiment], _identity(tags))
        run = found[0] if found else None
        if run is None:
            run = self.client.create_run(
                self.experiment,
                start_time=None if started is None else round(started * 1000),
                tags={tag: value for tag, value in tags.items() if value},
                run_name=run_name,
            )
        self.store.create(path, run.info.run_id.encode())
        claimed = self.store.read(path)
        assert claimed is not None, "claims are only removed with their run"
        if claimed.decode() != run.info.run_id:
            self.client.delete_run(run.info.run_id)
        return claimed.decode()

    def _parent(self) -> str:
        from mlflow.entities import Param

        tags = {
            names.TAG_RUN: self.run.id,
            names.TAG_PIPELINE: self.run.pipeline,
            names.TAG_STORE: self.store.url,
            names.TAG_PRESET: self.run.preset,
            names.TAG_GIT: self.run.git_sha,
            names.TAG_RERUN_OF: self.run.rerun_of,
        }
        if len(set(self.run.architectures.values())) == 1:
            tags[names.TAG_ARCHITECTURE] = next(iter(self.run.architectures.values()))
        started = datetime.fromisoformat(self.run.created).timestamp()
        parent = self._claimed("parent", self.run.id, tags, started)
        if names.TAG_DESCRIBED not in self.client.get_run(parent).data.tags:
            for part in _parts(list(_flatten(self.run.config)), 100):
                self.client.log_batch(parent, params=[Param(n, v[:6000]) for n, v in part])
            self.client.log_text(parent, self.run.model_dump_json(indent=1), RUN_FILE)
            self.client.set_tag(parent, names.TAG_DESCRIBED, RUN_FILE)
        return parent

    def _child(self, parent: str, state: StepState, children: dict[str, Any]) -> Any:
        """The child run of a step's attempt. Those of attempts that came to nothing are deleted."""
        attempt = state.attempt.rsplit("/", 1)[-1] or NO_ATTEMPT
        system = state.path.split("/")[0] if "/" in state.path else None
        for run_id, child in list(children.items()):
            tags = child.data.tags
            if tags[names.TAG_PATH] == state.path and tags[names.TAG_ATTEMPT] != attempt:
                self.client.delete_run(run_id)
                self.store.remove(f"{self.claims}/steps/{state.path}/{tags[names.TAG_ATTEMPT]}")
                del children[run_id]
        tags = {
            "mlflow.parentRunId": parent,
            names.TAG_RUN: self.run.id,
            names.TAG_PIPELINE: self.run.pipeline,
            names.TAG_PATH: state.path,
            names.TAG_STEP: state.step,
            names.TAG_ATTEMPT: attempt,
            names.TAG_SYSTEM: system,
            names.TAG_ARCHITECTURE: self.run.architectures.get(system or ""),
            names.TAG_GIT: self.run.git_sha,
            names.TAG_PRESET: self.run.preset,
        }
        claimed = self._claimed(f"steps/{state.path}/{attempt}", state.path, tags, state.started)
        return self.client.get_run(claimed)  # a search leaves out which models a run read and made

    def _tell_events(self, parent: str, child: Any, state: StepState) -> None:
        """Parameters, metrics and tags; an evaluation's metrics also stand in the parent. The tag that counts shipped events comes last; metrics that
        were shipped without it are exact duplicates, which MLflow drops."""
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
        parameters = {n: v for n, v in _flatten(state.config) if n not in child.data.params}
        new = {k: v[:8000] for k, v in wanted.items() if v and tags.get(k) != v[:8000]}
        for part in _parts(list(parameters.items()), 100):
            self.client.log_batch(run, params=[Param(n, v[:6000]) for n, v in part])
        for part in _parts(metrics, 1000):
            self.client.log_batch(run, metrics=part)
        if state.step.startswith("evaluate") and metrics:
            prefix = "" if len(self.run.architectures) == 1 else f"{state.path.split('/')[0]}/"
            named = [Metric(f"{prefix}{m.key}", m.value, m.timestamp, m.step) for m in metrics]
            self.client.log_batch(parent, metrics=named)
        for part in _parts(list(new.items()), 100):
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

    def _tell_links(self, child: Any, state: StepState) -> None:
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
                params=dict(_flatten(state.config)),
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

    def _tell_files(self, child: Any, state: StepState) -> None:
        """Records of all outputs, and the files that a person reads: metrics and tables."""
        if not state.outputs or names.TAG_FILES in child.data.tags:
            return
        run = child.info.run_id
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
        self.client.set_tag(run, names.TAG_FILES, len(state.outputs))

    def _tell_status(self, child: Any, state: StepState) -> None:
        status = {"running": "RUNNING", "failed": "FAILED"}.get(state.status, "FINISHED")
        self._set_status(child.info.run_id, child.info.status, status, state.ended or state.started)
        if status == "FINISHED":
            self.client.set_tag(child.info.run_id, names.TAG_COMPLETE, "true")

    def _end(self, parent: str, states: Iterable[StepState]) -> None:
        statuses = {state.path: state.status for state in states}
        if "failed" in statuses.values():
            status = "FAILED"
        elif set(self.run.steps) <= {p for p, s in statuses.items() if s in ("done", "found")}:
            status = "FINISHED"
        else:
            status = "RUNNING"
        ended = max((state.ended for state in states if state.ended), default=0.0)
        self._set_status(parent, self.client.get_run(parent).info.status, status, ended)

    def _set_status(self, run: str, now: str, wanted: str, ended: float) -> None:
        if now == wanted:
            return
        if wanted == "RUNNING":
            self.client.update_run(run, status=wanted)
        else:
            self.client.set_terminated(run, wanted, round(ended * 1000))


def _identity(tags: dict[str, str | None]) -> str:
    """MLflow's filter for the run with the tags that say which it is."""
    which = (names.TAG_RUN, names.TAG_STORE, "mlflow.parentRunId", names.TAG_PATH, names.TAG_ATTEMPT)
    parts = []
    for tag in which:
        if value := tags.get(tag):
            quote = '"' if "'" in value else "'"
            parts.append(f"tags.`{tag}` = {quote}{value}{quote}")
    return " and ".join(parts)


def _fingerprint(store: Store, states: Iterable[StepState], uri: str) -> bytes:
    """What MLflow should know of a run, and which database knows it."""
    parts = [uri, database(uri)]
    for state in sorted(states, key=lambda s: s.path):
        events = sum(1 for _ in read_events(store, state.attempt)) if state.attempt else 0
        status = "done" if state.status == "found" else state.status
        parts.append(f"{state.path} {state.key} {state.attempt} {status} {events}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest().encode()


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
