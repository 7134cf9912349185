"""A run whose steps are only told of, and what MLflow holds of it."""

from pathlib import Path

from mlflow import MlflowClient

from multiview import names
from multiview.artifacts.record import Reference
from multiview.artifacts.store import LocalStore
from multiview.steps.events import EventLog
from multiview.steps.runs import Run, StepState, write_run, write_state


class World:
    """A run whose steps are only told of, in a store of its own."""

    def __init__(self, folder: Path, uri: str, run: str = "training-1"):
        self.store, self.uri = LocalStore(folder), uri
        self.run = Run(
            id=run,
            pipeline="training",
            config={"train": {"epochs": 2}},
            steps=["split", "camvr/round-2/train", "camvr/round-2/evaluate"],
            architectures={"camvr": "camvr"},
        )
        write_run(self.store, self.run)

    def reference(self, kind: str, key: str) -> Reference:
        return Reference(address=f"{self.store.url}/{kind}/{key}", digest=f"{kind}{key}".ljust(64, "0"))

    def tell(self, path: str, attempt: str, losses: int = 0, status: str = "done", **more) -> None:
        """A step's state, and its events where this attempt has none yet."""
        step, kind = (
            path.rsplit("/", 1)[-1],
            {"split": "passages", "train": "model"}.get(path[-5:], "evaluation"),
        )
        data = f"{kind}/{path.replace('/', '-')}/attempts/{attempt}"
        log = EventLog(self.store, data)
        for number in range(losses):
            log.metric("loss", 1.0 / (number + 1), number + 1)
            log.metric("grad_norm", 1.0, number + 1)
        if step == "evaluate":
            log.metric("accuracy_at_5", 0.75)
            log.metric("accuracy_at_5/view_1", 0.5)
        outputs = (
            {} if status in ("failed", "running") else {kind: self.reference(kind, path.replace("/", "-"))}
        )
        inputs = {"passages": [self.reference("passages", "split")]} if step != "split" else {}
        if step == "evaluate":
            inputs |= {
                "model": [self.reference("model", "camvr-round-2-train")],
                "questions": [self.reference("dev_questions", "split")],
            }
        state = StepState.model_validate(
            {
                "path": path,
                "step": step,
                "status": status,
                "key": path.replace("/", "-"),
                "attempt": data,
                "config": {"encode": {"compute": "float32"}},
                "inputs": inputs,
                "outputs": outputs,
                "started": 1000.0 + len(path),
                "ended": None if status == "running" else 1100.0 + len(path),
                **more,
            }
        )
        write_state(self.store, self.run.id, state)

    def tell_all(self) -> None:
        self.tell("split", "s")
        self.tell("camvr/round-2/train", "t", losses=3)
        self.tell("camvr/round-2/evaluate", "e")

    def seen(self) -> dict:
        """All that MLflow holds of this run, but its own ids and times."""
        client = MlflowClient(self.uri)
        experiment = client.get_experiment_by_name("multiview")
        assert experiment is not None
        runs = client.search_runs([experiment.experiment_id], f"tags.`multiview.run` = '{self.run.id}'")
        seen = {}
        for run in [client.get_run(run.info.run_id) for run in runs]:
            path = run.data.tags.get("multiview.path", "")
            assert run.inputs is not None and run.outputs is not None
            assert path not in seen, f"{path} is there twice"
            own = (
                "mlflow.parentRunId",
                "mlflow.user",
                "mlflow.source.name",
                "multiview.run",
                "mlflow.runName",
                names.TAG_NOTED,
            )
            text = {k: v.replace(self.store.url, "") for k, v in run.data.tags.items() if k not in own}
            text |= {k: text[k].replace(self.run.id, "RUN") for k in ("mlflow.note.content",) if k in text}
            seen[path] = (
                run.info.status,
                text,
                run.data.params,
                {
                    n: [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, n)]
                    for n in run.data.metrics
                },
                sorted(d.dataset.digest for d in run.inputs.dataset_inputs),
                len(run.inputs.model_inputs),
                len(run.outputs.model_outputs),
                [f.path for f in client.list_artifacts(run.info.run_id)],
            )
        return seen
