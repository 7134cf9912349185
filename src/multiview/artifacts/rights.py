"""Who may read the files of a local folder."""

from __future__ import annotations

from pathlib import Path

READ_AND_WRITE = 0o666


def share(folder: Path) -> None:
    """Lets those read and write each file below `folder` who may read and write in the folder.

    safetensors writes weights for their owner alone, whatever the umask.
    """
    granted = folder.stat().st_mode & READ_AND_WRITE
    for path in folder.rglob("*"):
        mode = path.stat().st_mode
        if path.is_file() and mode & granted != granted:
            path.chmod(mode & 0o7777 | granted)
