"""Writing artifacts: fill a folder, then publish its record; the first attempt wins."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from multiview import names
from multiview.artifacts.record import Record, describe_files, digest_of, parse_record, read_record
from multiview.artifacts.store import LocalStore, Store


class Attempt:
    """One try at making one artifact.

    `path` is an empty local folder to fill. Nothing of it is an artifact until `publish`.
    """

    def __init__(self, store: Store, kind: str, key: str, attempt: str | None = None):
        self.store, self.kind, self.key = store, kind, key
        self.id = attempt or uuid.uuid4().hex[:16]
        self.started = datetime.now(UTC)
        self.path: Path = store.workspace(self.data)

    @property
    def folder(self) -> str:
        return f"{self.kind}/{self.key}"

    @property
    def data(self) -> str:
        return f"{self.folder}/attempts/{self.id}"

    def publish(
        self,
        *,
        crash: Callable[[str], None] = lambda point: None,
        **description: Any,
    ) -> tuple[Record, bool]:
        """Create the artifact's record; return the record that counts and whether it is ours.

        If another attempt was first, its record is returned and this attempt's files are removed.
        `description` is the rest of `Record`; `crash` is called before each write, for tests.
        """
        files = describe_files(self.path)
        crash("save")
        self.store.save(self.path, self.data)
        record = Record(
            kind=self.kind,
            key=self.key,
            digest=digest_of(files),
            attempt=self.id,
            files=files,
            created=self.started.isoformat(timespec="seconds"),
            seconds=round((datetime.now(UTC) - self.started).total_seconds(), 3),
            **description,
        )
        crash("record")
        path = f"{self.folder}/{names.RECORD_FILE}"
        ours = self.store.create(path, record.to_json())
        if not ours:
            data = self.store.read(path)
            assert data is not None, "a record that was there is never removed while in use"
            record = parse_record(data, f"{self.store.url}/{self.folder}")
        self._clean(ours)
        return record, ours

    def abandon(self) -> None:
        """Remove what this attempt wrote."""
        self._clean(False)

    def _clean(self, keep: bool) -> None:
        if not isinstance(self.store, LocalStore):
            shutil.rmtree(self.path, ignore_errors=True)
        if not keep:
            self.store.remove(self.data)


class Checkpoints:
    """Checkpoints of one training, each an artifact of its own, so that two trainers of one key
    share them and cannot harm each other.

    `key` is the key of the model being trained.
    """

    def __init__(self, store: Store, key: str, scratch: Path):
        self.store, self.key, self.scratch = store, key, scratch

    def latest(self) -> Path | None:
        """A private local copy of the newest complete checkpoint, None if there is none."""
        for step in reversed(self._steps()):
            record = read_record(self.store, names.CHECKPOINT, self._key(step))
            if record is None:
                continue
            folder = self.scratch / f"checkpoint-{step}"
            try:
                for file in record.files:
                    target = folder / file.path
                    found = self.store.fetch(f"{record.data}/{file.path}", target)
                    if found != target:
                        target.parent.mkdir(parents=True, exist_ok=True)
                        shutil.copyfile(found, target)
            except FileNotFoundError:  # the other trainer has just replaced it by a later one
                shutil.rmtree(folder, ignore_errors=True)
                continue
            return folder
        return None

    def publish(self, step: int, folder: Path) -> None:
        """Keep a checkpoint folder as the one after `step` steps; older ones but one are dropped."""
        if read_record(self.store, names.CHECKPOINT, self._key(step)) is None:
            attempt = Attempt(self.store, names.CHECKPOINT, self._key(step))
            shutil.copytree(folder, attempt.path, dirs_exist_ok=True)
            attempt.publish(
                step="checkpoint",
                step_version=1,
                config={"model": self.key, "step": step},
                inputs={},
            )
        for older in [s for s in self._steps() if s < step][:-1]:
            self._remove(older)

    def clear(self) -> None:
        """Drop all checkpoints: the model is published."""
        for step in self._steps():
            self._remove(step)

    def _steps(self) -> list[int]:
        prefix = f"{self.key}-"
        folders = self.store.folders(names.CHECKPOINT)
        return sorted(int(name[len(prefix) :]) for name in folders if name.startswith(prefix))

    def _key(self, step: int) -> str:
        return f"{self.key}-{step:08d}"

    def _remove(self, step: int) -> None:
        # The record goes first: what is half removed must not look complete.
        folder = f"{names.CHECKPOINT}/{self._key(step)}"
        self.store.remove(f"{folder}/{names.RECORD_FILE}")
        self.store.remove(folder)
