"""Files and folders of an export, which appear whole or not at all."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from multiview.errors import InputError


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yields a folder beside `folder`, which becomes `folder` at the end; it is removed if the context is left by an exception.

    Raises InputError if `folder` exists and is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists: remove it, or choose another --out")
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        part.chmod(0o755)
        yield part
        part.replace(folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
