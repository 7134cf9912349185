"""Folders that commands write to."""

from __future__ import annotations

import tempfile
from pathlib import Path

from multiview.errors import InputError


def check_folder(option: str, folder: Path) -> None:
    """Raises InputError, before work begins, for a folder of an option that cannot be made or written to.

    It is tried in the folder, or in the nearest one above it that there is, and nothing is left there.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{option} {folder}: it is a file; name a folder")
    nearest = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    try:
        with tempfile.TemporaryDirectory(dir=nearest):
            pass
    except OSError as error:
        raise InputError(
            f"{option} {folder}: nothing can be written in {nearest} ({error.strerror}); name another folder"
        ) from None
