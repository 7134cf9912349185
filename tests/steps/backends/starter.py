"""A step's pod as a process that tests can kill: `python -m tests.steps.backends.starter TASK NODES`."""

import sys

from multiview.steps.backends.trainjob import Nodes, Task
from multiview.steps.backends.trainjob_client import run_train_job

if __name__ == "__main__":
    run_train_job(Task.model_validate_json(sys.argv[1]), Nodes.model_validate_json(sys.argv[2]))
