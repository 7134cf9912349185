"""A step for the tests of forks, and a process that forks for it: `python -m tests.steps.backends.forked LISTENER`."""

import os
import signal
import socket
import sys
import time
from pathlib import Path

from multiview import names
from multiview.errors import InputError
from multiview.steps.backends import fork_server
from multiview.steps.context import StepContext
from multiview.steps.step import Step
from multiview.steps.table import STEPS

STEP = Step(
    name="forked",
    version=1,
    run="tests.steps.backends.forked:work",
    settings=("bm25",),
    inputs=(),
    outputs=(names.PASSAGES,),
    torch=True,
)
DO = "TEST_FORKED"
"""Environment variable: what the step does."""


def work(context: StepContext) -> None:
    """Refuses, breaks, is killed, waits for ever, or writes its process id, as the environment variable says."""
    print("said", flush=True)
    match os.environ.get(DO):
        case "refuse":
            raise InputError("questions.jsonl: row 3 has no answer")
        case "break":
            raise ZeroDivisionError("by none")
        case "be killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "wait":
            Path("waiting").write_text(str(os.getpid()))
            time.sleep(600)
    (context.output(names.PASSAGES) / "who.txt").write_text(
        f"{os.getpid()} of {os.getppid()} in {Path.cwd()}"
    )


if __name__ == "__main__":
    STEPS[STEP.name] = STEP
    fork_server.serve(socket.socket(fileno=int(sys.argv[1])), sys.stdin.fileno(), ())
