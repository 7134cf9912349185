"""A step's pod as a process that tests can end: `python -m tests.steps.backends.starter STATE TEMPLATE NAMESPACE_FILE`."""

import json
import sys
from pathlib import Path

from multiview.steps.backends import trainjob
from multiview.steps.runs import StepState
from tests.fixtures.training_jobs import STEP

if __name__ == "__main__":
    trainjob.NAMESPACE_FILE = Path(sys.argv[3])
    state = StepState.model_validate_json(sys.argv[1])
    trainjob.run_train_job(*STEP[:2], state, json.loads(sys.argv[2]))
