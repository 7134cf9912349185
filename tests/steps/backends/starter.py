"""A step's pod as a process that tests can end: `python -m tests.steps.backends.starter TASK TEMPLATE NAMESPACE_FILE`."""

import json
import sys
from pathlib import Path

from multiview.steps.backends import trainjob_api
from multiview.steps.backends.trainjob import Task, run_train_job

if __name__ == "__main__":
    trainjob_api.NAMESPACE_FILE = Path(sys.argv[3])
    run_train_job(Task.model_validate_json(sys.argv[1]), json.loads(sys.argv[2]))
