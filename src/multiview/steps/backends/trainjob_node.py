"""The program of a TrainJob's pods: `python -m multiview.steps.backends.trainjob_node STORE RUN PATH`, with the state of
a step, which holds its settings and inputs.

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
from multiview.config import canonical_json
from multiview.errors import InputError, one_line, print_line, safe
from multiview.steps.backends.in_process import check_visible_gpus, work_here
from multiview.steps.backends.trainjob import BAD_INPUT
from multiview.steps.checkpoints import StoredCheckpoints
from multiview.steps.events import Events
from multiview.steps.processors import follow_pod
from multiview.steps.runs import read_state
from multiview.steps.table import step
from multiview.steps.work import StepReporter, Work

TERMINATION_LOG = Path(os.environ.get(environment.TERMINATION_LOG, "/dev/termination-log"))
"""The file whose content Kubernetes copies into the pod's status, where the step finds it."""


def run_on_node(store_url: str, run: str, path: str) -> None:
    """Does this node's part of a step, unless its outputs are there; the first node reports and publishes. Raises
    InputError for a step that has not begun, and whatever the step raises."""
    check_visible_gpus()  # on every node: each would train on the processor without its GPUs
    store = open_store(store_url)
    state = read_state(store, run, path)
    if state is None:
        raise InputError(f"store {store.url} has no state of step {path} of run {run}: start the run again")
    work = Work.resolve(step(state.step), canonical_json(state.config), dict(state.inputs), store)
    if len(work.find(store)) == len(work.step.outputs):
        return
    if os.environ.get(environment.PET_NODE_RANK, "0") == "0":
        reporter = StepReporter(store, run, path, state.step)
        reporter.log = print_line
        reporter.describe(work)
        work_here(work, reporter)
        return
    outputs = {kind: scratch() / "unpublished" / kind for kind in work.step.outputs}
    checkpoints = StoredCheckpoints(store, work.key)
    work.step.function()(work.context(store, outputs, Events(), checkpoints))


def main(store: str, run: str, path: str) -> int:
    """Does this node's part of a step; returns the exit status, 2 for bad input."""
    follow_pod()
    try:
        run_on_node(store, run, path)
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
    sys.exit(main(*sys.argv[1:]))
