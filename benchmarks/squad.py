"""SQuAD's files, which several benchmarks read."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.table import NotRun
from multiview import environment


def squad_folder() -> Path:
    """The folder `squad` in MULTIVIEW_DATA, else in `data`. Raises NotRun where it is not there."""
    folder = Path(os.environ.get(environment.DATA, "data")) / "squad"
    if not (folder / "passages.parquet").is_file():
        raise NotRun(f"no SQuAD in {folder}: set {environment.DATA}")
    return folder
