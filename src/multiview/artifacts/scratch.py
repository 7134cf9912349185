"""The scratch folder of a process: copies of inputs, outputs on their way to a bucket, checkpoints."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

from multiview import environment
from multiview.errors import InputError

_folders: dict[int, Path] = {}
"""The scratch folder by process id: a fork inherits its parent's entry, but the folder is not its own."""


def scratch() -> Path:
    """Returns this process's scratch folder, which is removed at exit, unless the process is killed outright.
    Raises InputError where MULTIVIEW_SCRATCH names none."""
    process = os.getpid()
    if process not in _folders:
        chosen = os.environ.get(environment.SCRATCH)
        try:
            _folders[process] = Path(tempfile.mkdtemp(prefix="multiview-", dir=chosen))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise InputError(
                f"{environment.SCRATCH}={chosen or ''}: there is no such folder; make it, or name another"
            ) from error
        atexit.register(remove_scratch)
    return _folders[process]


def remove_scratch() -> None:
    """Removes this process's scratch folder, if it has one. Call it before `os._exit`, which skips exit handlers."""
    if folder := _folders.pop(os.getpid(), None):
        shutil.rmtree(folder, ignore_errors=True)
