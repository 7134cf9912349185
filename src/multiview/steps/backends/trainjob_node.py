"""The program of a TrainJob's pods: `python -m multiview.steps.backends.trainjob_node TASK`.

TASK is the JSON of a `trainjob.Task`.

Kubeflow Trainer describes the other pods to each pod by torchrun's environment variables (`PET_*`), from which
`multiview.training.processes` starts this node's processes. The first node publishes; the others only train.
"""

import contextlib
import os
import sys
import traceback
from pathlib import Path

from multiview import environment
from multiview.artifacts.scratch import scratch
from multiview.artifacts.store import open_store
from multiview.errors import InputError, one_line
from multiview.steps.backends.in_process import InProcess, check_gpus
from multiview.steps.backends.trainjob import Task
from multiview.steps.backends.trainjob_api import BAD_INPUT
from multiview.steps.checkpoints import StoredCheckpoints
from multiview.steps.events import NoEvents
from multiview.steps.table import step
from multiview.steps.work import StepReporter, Work
from multiview.terminal import safe

TERMINATION_LOG = Path(os.environ.get(environment.TERMINATION_LOG, "/dev/termination-log"))
"""The file whose content Kubernetes copies into the pod's status, where the step finds it."""


def run_on_node(work: Work, reporter: StepReporter, first: bool) -> None:
    """Does one node's part of a step that several nodes do together; the `first` node reports and publishes.

    Nothing happens if the step's outputs are there. Raises whatever the step raises.
    """
    store = reporter.store
    if len(work.find(store)) == len(work.step.outputs):
        return
    if first:
        reporter.describe(work)
        InProcess().make(work, reporter)
        return
    outputs = {kind: scratch() / "unpublished" / kind for kind in work.step.outputs}
    checkpoints = StoredCheckpoints(store, work.key, scratch())
    work.step.function()(work.context(store, outputs, NoEvents(), checkpoints))


def main(text: str) -> int:
    """Does this node's part of a step; returns the exit status, 2 for bad input.

    Every node checks its GPUs, since each would train on the processor without them.
    """
    try:
        task = Task.model_validate_json(text)
        declared = step(task.step)
        check_gpus()
        store = open_store(task.store)
        reporter = StepReporter(store, task.run, task.path, task.step)
        first = os.environ.get(environment.PET_NODE_RANK, "0") == "0"
        run_on_node(Work.resolve(declared, task.config, dict(task.inputs), store), reporter, first)
    except InputError as error:
        return _end(str(error), BAD_INPUT)
    except Exception as error:
        traceback.print_exc()
        return _end(one_line(error), 1)
    return 0


def _end(line: str, status: int) -> int:
    print(safe(line), file=sys.stderr)
    with contextlib.suppress(OSError):
        TERMINATION_LOG.write_text(line, encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
