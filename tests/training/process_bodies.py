"""Bodies of training processes that end badly, or never; without transformers, which takes long to import."""

import os
import signal
import time

import psutil

from multiview.errors import InputError
from multiview.steps.context import StepContext


def second_is_killed(context: StepContext) -> None:
    """The second process is killed while the first one waits for it."""
    if os.environ["RANK"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)


def second_refuses(context: StepContext) -> None:
    """The second process finds bad input, and the first one fails in its wake."""
    pid_file = context.output("seen") / "second"
    if os.environ["RANK"] == "1":
        pid_file.write_text(f"{os.getpid()}\n")
        raise InputError("questions.parquet: row 7 has no answer")
    while not (pid_file.exists() and pid_file.read_text().endswith("\n")):
        time.sleep(0.01)
    second = int(pid_file.read_text())
    while psutil.pid_exists(second) and psutil.Process(second).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    raise RuntimeError("connection closed by peer")


def store_refuses(context: StepContext) -> None:
    """The first process sends something that its starter cannot keep."""
    if os.environ["RANK"] == "0":
        context.events.fact(steps=3)
        context.checkpoints.publish(4, context.output("seen"))
    time.sleep(600)


def says_its_ids(context: StepContext) -> None:
    """Each process leaves its number in a folder and goes on."""
    (context.output("seen") / f"{os.getpid()}").touch()
    time.sleep(600)
