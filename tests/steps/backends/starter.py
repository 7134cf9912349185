"""A step's pod as a process that tests can end: `python -m tests.steps.backends.starter STATE TEMPLATE NAMESPACE_FILE`."""

import json
import sys
from pathlib import Path

from multiview.artifacts.store import LocalStore
from multiview.kubeflow.sigterm import killed_by_sigterm
from multiview.steps.backends import trainjob
from multiview.steps.runs import StepState
from multiview.steps.work import StepReporter
from tests.fixtures.training_jobs import STEP

if __name__ == "__main__":
    trainjob.NAMESPACE_FILE = Path(sys.argv[3])
    state = StepState.model_validate_json(sys.argv[1])
    store = LocalStore(Path(sys.argv[3]).parent / "store")
    with killed_by_sigterm(StepReporter(store, STEP[1], state.path, state.step), None):
        trainjob.run_train_job(*STEP[:2], state, json.loads(sys.argv[2]))
