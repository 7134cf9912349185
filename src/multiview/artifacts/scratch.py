"""The scratch folder of a process: copies of inputs, outputs on their way to a bucket, checkpoints."""

from __future__ import annotations

import atexit
import math
import os
import shutil
import tempfile
from pathlib import Path

from pydantic import ByteSize, TypeAdapter, ValidationError

from multiview import environment
from multiview.errors import InputError

_folders: dict[int, Path] = {}
"""The scratch folder by process, because a fork inherits its parent's entry, which is not its own."""


def scratch() -> Path:
    """Returns this process's scratch folder, under `MULTIVIEW_SCRATCH` if set; it is removed when the process ends.

    What kills a process at once (SIGKILL, too little memory) leaves the folder.
    """
    process = os.getpid()
    if process not in _folders:
        _folders[process] = Path(
            tempfile.mkdtemp(prefix="multiview-", dir=os.environ.get(environment.SCRATCH))
        )
        atexit.register(remove_scratch)
    return _folders[process]


def streamed_from(copied: int) -> float:
    """Returns the number of bytes from which on a file that can be read in parts stays in its bucket.

    That is `MULTIVIEW_STREAMED`; where it is unset, any number if `copied` bytes, those of all inputs, have no room, and
    else none. Raises InputError where the variable is no size.
    """
    if chosen := os.environ.get(environment.STREAMED):
        try:
            return TypeAdapter(ByteSize).validate_python(chosen)
        except ValidationError:
            raise InputError(
                f"{environment.STREAMED}={chosen}: not a size; give a number of bytes, or one as in 50GiB"
            ) from None
    return 1 if copied > shutil.disk_usage(scratch()).free else math.inf


def remove_scratch() -> None:
    """Removes this process's scratch folder, if it has one. Before `os._exit`, which leaves out what Python does at an
    end."""
    if folder := _folders.pop(os.getpid(), None):
        shutil.rmtree(folder, ignore_errors=True)
