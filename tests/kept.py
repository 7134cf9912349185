"""Checkpoints in a folder, for tests of steps that go on where they were killed."""

import shutil
from pathlib import Path


class Kept:
    """`stop_after` kills the run once that step is kept."""

    def __init__(self, folder: Path, stop_after: int | None = None) -> None:
        self.folder, self.stop_after = folder, stop_after

    def latest(self) -> Path | None:
        steps = sorted(self.folder.glob("*"), key=lambda path: int(path.name))
        return steps[-1] if steps else None

    def publish(self, step: int, folder: Path) -> None:
        shutil.copytree(folder, self.folder / str(step))
        if step == self.stop_after:
            raise KeyboardInterrupt
