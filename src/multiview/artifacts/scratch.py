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
    """Returns the size from which a file stays in its bucket and is read in parts: `MULTIVIEW_STREAMED`.

    Where that is unset, all such files stay there if the `copied` bytes of all inputs exceed the free disk space, else
    none. Raises InputError if the variable is not a size.
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
    """Removes this process's scratch folder, if it has one. Call it before `os._exit`, which skips exit handlers."""
    if folder := _folders.pop(os.getpid(), None):
        shutil.rmtree(folder, ignore_errors=True)
