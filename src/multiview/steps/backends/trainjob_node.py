"""What a pod of a TrainJob runs: `python -m multiview.steps.backends.trainjob_node JSON`, the JSON being a `trainjob.Task`.

Kubeflow Trainer tells each pod of the others by torchrun's environment (`PET_*`), from which
`multiview.training.processes` starts this node's processes. The first node publishes; the others only train.
"""

import contextlib
import os
import sys
import traceback
from pathlib import Path

from multiview.artifacts.store import open_store
from multiview.errors import InputError, one_line
from multiview.steps.backends.trainjob import Task
from multiview.steps.backends.trainjob_client import BAD_INPUT
from multiview.steps.execution import StepTeller, run_on_node
from multiview.steps.table import step

TERMINATION_LOG = Path(os.environ.get("MULTIVIEW_TERMINATION_LOG", "/dev/termination-log"))
"""Kubernetes puts what a container writes there into the pod's status, where the step finds it."""


def main(text: str) -> int:
    """Do this node's part of a step; the exit status, 2 for bad input."""
    try:
        task = Task.model_validate_json(text)
        told = StepTeller(open_store(task.store), task.run, task.path, task.step)
        first = os.environ.get("PET_NODE_RANK", "0") == "0"
        run_on_node(step(task.step), told, task.config, dict(task.inputs), first)
    except InputError as error:
        return _end(str(error), BAD_INPUT)
    except Exception as error:
        traceback.print_exc()
        return _end(one_line(error), 1)
    return 0


def _end(line: str, status: int) -> int:
    print(line, file=sys.stderr)
    with contextlib.suppress(OSError):
        TERMINATION_LOG.write_text(line, encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
