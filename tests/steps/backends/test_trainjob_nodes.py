"""Two nodes train one model: the step starts a TrainJob, whose pods read and write the store themselves."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from multiview import environment, names
from multiview.artifacts.attempt import Attempt
from multiview.artifacts.record import Record, Reference
from multiview.artifacts.store import LocalStore
from multiview.config import Config
from multiview.config.overrides import validate
from multiview.model.encoder import BiEncoder
from multiview.steps.events import read_metrics
from multiview.steps.execution import run_step
from multiview.steps.runs import read_states
from multiview.steps.table import STEPS
from multiview.steps.work import StepReporter
from tests.fixtures import training_material
from tests.fixtures.cluster import Cluster, step_pod
from tests.fixtures.tiny import tiny_bert
from tests.fixtures.training_jobs import template

SETTINGS = {
    "batch_size": 5,
    "epochs": 4,
    "max_steps": 6,
    "learning_rate": 1e-3,
    "warmup_steps": 1,
    "checkpoint_steps": 2,
    "dropout": 0.0,
    "positive": "answer",
}


def published(store: LocalStore, kind: str, key: str, fill: Any) -> Reference:
    """An artifact made by hand."""
    attempt = Attempt(store, kind, key)
    fill(attempt.path)
    record, _ = attempt.publish(step="test", step_version=1, config={}, inputs={})
    return Reference(address=f"{store.url}/{record.folder}", digest=record.digest)


def stored_training(folder: Path) -> tuple[LocalStore, dict[str, Reference]]:
    """A store with all that a training reads."""
    store = LocalStore(folder / "store")
    base = tiny_bert(folder / "base")
    passages = [training_material.passage(i) for i in range(16)]
    questions = [training_material.question(i, passages[i]) for i in range(10)]
    pool = {q.qid: [passages[(i * 5 + 1) % 16].id] for i, q in enumerate(questions)}
    data = training_material.write_training_data(folder / "data", questions, pool)

    def copy(name: str) -> Any:
        return lambda path: [(path / f.name).write_bytes(f.read_bytes()) for f in data[name].path.iterdir()]

    return store, {
        "start": published(
            store,
            names.MODEL,
            "start",
            lambda path: training_material.saved_model(path, base, passage_length=64),
        ),
        "passages": published(
            store, names.PASSAGES, "p", lambda path: training_material.write_shard(path, passages)
        ),
        "questions": published(store, names.TRAIN_QUESTIONS, "q", copy("questions")),
        "negatives": published(store, names.NEGATIVES, "n", copy("negatives")),
    }


def train(store: LocalStore, inputs: dict[str, Reference], path: str, **settings: Any) -> Record:
    config: Config = validate({"train": {**SETTINGS, **settings}})
    step = STEPS["train"]
    reporter = StepReporter(store, "run", path, "train")
    with reporter.failures():
        return run_step(step, reporter, step.configure(config), inputs)["model"]


@pytest.mark.acceptance
def test_two_nodes_train_the_model_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, inputs = stored_training(tmp_path)
    alone = train(store, inputs, "alone", seed=0)
    expected = BiEncoder.load(store.root / alone.data).state_dict()
    store.remove(alone.folder)  # the key is the same: how many train it is no part of it

    cluster = Cluster(tmp_path)
    monkeypatch.setattr(
        "kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(cluster.kubeconfig())
    )
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    cluster.steps["train-2"] = step_pod("train-2", "training-w")
    monkeypatch.setenv(environment.NODES, json.dumps(template()))
    try:
        together = train(store, inputs, "together")
    finally:
        cluster.close()

    assert together.key == alone.key and together.facts["processes"] == 2
    assert len(cluster.created) == 1
    for name, value in BiEncoder.load(store.root / together.data).state_dict().items():
        if name.endswith(
            "key.bias"
        ):  # softmax cancels it: its gradient is rounding, which AdamW makes steps of
            continue
        # Where a gradient is near zero, AdamW makes a step of its rounding.
        torch.testing.assert_close(value, expected[name], rtol=1e-5, atol=1e-3, msg=name)
    steps = {metric.step for metric in read_metrics(store, together.data) if metric.name == "loss"}
    assert steps == {2, 4, 6}, "at each checkpoint"
    (state,) = [state for state in read_states(store, "run") if state.path == "together"]
    assert state.status == "done" and state.attempt == together.data
    # One attempt, and no checkpoint is left.
    assert len(store.folders(f"{together.folder}/attempts")) == 1
    assert not store.folders(names.CHECKPOINT)
