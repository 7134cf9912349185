"""Runs that are followed: what becomes of them each time that `submit --wait` looks."""

import time
from datetime import UTC, datetime, timedelta

from multiview.artifacts.store import open_store
from multiview.kubeflow.run import open_run
from multiview.steps.runs import Run, StepState, write_state
from tests.fixtures.argo_nodes import Phases, Workflow

OPENED = {"open-run": "Succeeded", "close-run": "Succeeded"}
BEFORE = {
    **dict.fromkeys(("split", "bm25-negatives", "initial-model", "train"), "Succeeded"),
    "open-run": "Succeeded",
}
"""Everything before the first round's encoding."""


def described_of(run) -> Run:
    return Run.model_validate_json(run.runtime_config.parameters["described"])


class Cluster:
    """What becomes of a run: at its first look it is opened, at the next its steps are done or fail."""

    def __init__(self, failing: str | None = None, word: str = "SUCCEEDED"):
        self.failing, self.word = failing, word
        self.looks: list[str] = []

    def __call__(self, run) -> None:
        self.looks.append(run.run_id)
        given = run.runtime_config.parameters
        described = described_of(run)
        if len(self.looks) == 1:
            run.state = "RUNNING"
            open_run(given["store"], given["described"], run.run_id)
        elif run.state == "RUNNING":
            store = open_store(given["store"])
            for path in described.steps:
                failed = path == self.failing
                state = StepState(
                    path=path,
                    step=path.rsplit("/", 1)[-1],
                    status="failed" if failed else "done",
                    started=time.time(),
                    ended=time.time(),
                    error="corpus.source: row 3 has no text" if failed else None,
                )
                write_state(store, described.id, state)
                if failed:
                    break
            run.state = self.word


class Argo:
    """What becomes of a run by Argo's nodes alone: at each look the next phases of its tasks, with their end."""

    def __init__(self, kubeflow, *looks: tuple[str, Phases], retried: bool = True):
        self.kubeflow, self.looks, self.retried = kubeflow, list(looks), retried

    def __call__(self, run) -> None:
        version = self.kubeflow.versions[run.pipeline_version_reference.pipeline_version_id]
        run.state, phases = self.looks.pop(0)
        self.workflow = Workflow(version.pipeline_spec, retried=self.retried)
        run.run_details = self.workflow.details(phases)


def each(*parts):
    """What happens to a run at each look: all of these, one after the other."""

    def on_run(run) -> None:
        for part in parts:
            part(run)

    return on_run


def silent(hours: float = 3):
    """As of a run whose workflow is gone: Kubeflow says of it what it said hours ago."""

    def on_run(run) -> None:
        run.created_at = datetime.now(UTC) - timedelta(hours=hours)
        for past in run.state_history:
            past.update_time = run.created_at
        for node in (run.run_details and run.run_details.task_details) or ():
            node.state_history = []

    return on_run
