"""Checkpoints of a step: artifacts of their own, which two processes that make the same output can safely share."""

import contextlib
import shutil
import tempfile
from pathlib import Path

from multiview import names
from multiview.artifacts.attempt import Attempt
from multiview.artifacts.record import DamagedRecord, read_record
from multiview.artifacts.scratch import scratch
from multiview.artifacts.staging import stage
from multiview.artifacts.store import Store
from multiview.errors import InputError
from multiview.steps.events import EventLog

EVENTS = "events.jsonl"
"""A checkpoint's file with the events of its training so far."""


class Checkpoints:
    """A step's checkpoints, including those of an interrupted attempt. This one keeps none."""

    def latest(self) -> Path | None:
        """Returns a private local copy of the newest checkpoint; None if there is none."""

    def publish(self, step: int, folder: Path) -> None:
        """Publishes a folder as the checkpoint after `step` steps."""


NO_CHECKPOINTS = Checkpoints()


class StoredCheckpoints(Checkpoints):
    """The checkpoints of the output with `key`, in a store.

    A checkpoint holds the events of the attempt's `log` so far, and a resumed log begins with them, so that each
    attempt's log covers the whole work.
    """

    def __init__(self, store: Store, key: str, log: EventLog | None = None):
        self.store, self.key, self.log = store, key, log

    def latest(self) -> Path | None:
        """Returns a copy of the newest undamaged checkpoint. Damaged ones are named in the log and dropped; the training
        makes them again."""
        found, damaged, tried = None, [], []
        # Another trainer may drop all of these and add newer ones meanwhile.
        while not found and (steps := self._steps()) != tried:
            tried = steps
            for step in reversed(steps):
                try:
                    if found := self._copy(step):
                        break
                except DamagedRecord as error:
                    # Without its record, the next checkpoint at this step can be published.
                    self.store.remove(self._record_file(step))
                    damaged.append(f"a damaged checkpoint was left out: {error}")
        if self.log:
            if found and (found / EVENTS).exists():
                self.log.resume((found / EVENTS).read_text(encoding="utf-8"))
            for line in damaged:
                self.log.warning(line)
        return found

    def _copy(self, step: int) -> Path | None:
        """Returns a private copy of a checkpoint; None if another trainer has just dropped it for a later one. Raises
        DamagedRecord if it is damaged, and other errors if it cannot be read or copied now."""
        record = read_record(self.store, names.CHECKPOINT, self._key(step))
        if record is None:
            return None
        folder = Path(tempfile.mkdtemp(dir=scratch())) / f"checkpoint-{step}"
        try:
            shutil.copytree(stage(self.store, record).path, folder)
        except (InputError, OSError):
            shutil.rmtree(folder, ignore_errors=True)
            if self.store.read(self._record_file(step)) is None:
                return None
            raise
        return folder

    def _record_file(self, step: int) -> str:
        return f"{names.CHECKPOINT}/{self._key(step)}/{names.RECORD_FILE}"

    def publish(self, step: int, folder: Path) -> None:
        """Publishes a checkpoint; of older ones, only the newest is kept."""
        if read_record(self.store, names.CHECKPOINT, self._key(step)) is None:
            # Another trainer may have finished and cleared the checkpoints: then there is nothing to keep.
            with contextlib.suppress(FileNotFoundError):
                self._keep(step, folder)
        for older in [s for s in self._steps() if s < step][:-1]:
            self._remove(older)

    def clear(self) -> None:
        """Removes all checkpoints once the model is published. One that cannot be removed is left as garbage."""
        with contextlib.suppress(Exception):
            for step in self._steps():
                self._remove(step)

    def _keep(self, step: int, folder: Path) -> None:
        attempt = Attempt(self.store, names.CHECKPOINT, self._key(step))
        shutil.copytree(folder, attempt.path, dirs_exist_ok=True)
        if self.log:
            (attempt.path / EVENTS).write_text(self.log.text(), encoding="utf-8")
        attempt.publish(
            step="checkpoint", step_version=1, config={"model": self.key, "step": step}, inputs={}
        )

    def _steps(self) -> list[int]:
        prefix = f"{self.key}-"
        folders = self.store.folders(names.CHECKPOINT)
        return sorted(int(name[len(prefix) :]) for name in folders if name.startswith(prefix))

    def _key(self, step: int) -> str:
        return f"{self.key}-{step:08d}"

    def _remove(self, step: int) -> None:
        # The record is removed first: a half-removed checkpoint must not look complete. Another
        # trainer's attempt at the same checkpoint is left alone.
        folder = f"{names.CHECKPOINT}/{self._key(step)}"
        if record := read_record(self.store, names.CHECKPOINT, self._key(step)):
            self.store.remove(self._record_file(step))
            self.store.remove(record.data)
        if not self.store.folders(f"{folder}/attempts"):
            self.store.remove(folder)
