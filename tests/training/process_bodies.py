"""Bodies of training processes that end badly, or never; without transformers, which takes long to import."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import psutil

from multiview.errors import InputError


def second_is_killed(
    settings: Any, inputs: dict[str, Any], output: dict[str, Path], tell: Any, checkpoints: Any
) -> None:
    """The second process is killed while the first one waits for it."""
    if os.environ["RANK"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)


def second_refuses(
    settings: Any, inputs: dict[str, Any], output: dict[str, Path], tell: Any, checkpoints: Any
) -> None:
    """The second process finds bad input, and the first one fails in its wake."""
    told = output["seen"] / "second"
    if os.environ["RANK"] == "1":
        told.write_text(f"{os.getpid()}\n")
        raise InputError("questions.parquet: row 7 has no answer")
    while not (told.exists() and told.read_text().endswith("\n")):
        time.sleep(0.01)
    second = int(told.read_text())
    while psutil.pid_exists(second) and psutil.Process(second).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    raise RuntimeError("connection closed by peer")


def store_refuses(
    settings: Any, inputs: dict[str, Any], output: dict[str, Path], tell: Any, checkpoints: Any
) -> None:
    """The first process tells something that its starter cannot keep."""
    if os.environ["RANK"] == "0":
        tell.fact("steps", 3)
        checkpoints.publish(4, output["seen"])
    time.sleep(600)


def says_its_ids(
    settings: Any, inputs: dict[str, Any], output: dict[str, Path], tell: Any, checkpoints: Any
) -> None:
    """Each process leaves its number in a folder and goes on."""
    (output["seen"] / f"{os.getpid()}").touch()
    time.sleep(600)
