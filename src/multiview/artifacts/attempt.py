"""Attempts at making an artifact: fill a folder, then publish its record; the first attempt wins."""

import shutil
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import NotRequired, TypedDict, Unpack

from multiview import names
from multiview.artifacts.local_store import share
from multiview.artifacts.record import Record, Reference, describe_files, digest_of, parse_record
from multiview.artifacts.staging import is_settled, remember, stamp
from multiview.artifacts.store import LocalStore, Store
from multiview.config import JsonObject


class Description(TypedDict):
    """The part of a `Record` that says how the artifact was made: settings, inputs and code."""

    step: str
    step_version: int
    config: JsonObject
    inputs: dict[str, list[Reference]]
    sources: NotRequired[JsonObject]
    facts: NotRequired[JsonObject]
    environment: NotRequired[JsonObject]


class Attempt:
    """One attempt at making one artifact.

    `path` is an empty local folder to fill. Its files are no artifact until `publish`.
    """

    def __init__(self, store: Store, kind: str, key: str):
        self.store, self.kind, self.key = store, kind, key
        self.id = uuid.uuid4().hex[:16]
        self.folder = f"{kind}/{key}"
        self.data = f"{self.folder}/attempts/{self.id}"
        self.started = datetime.now(UTC)
        self.in_doubt = False
        self.path: Path = store.workspace(self.data)

    def publish(self, **description: Unpack[Description]) -> tuple[Record, bool]:
        """Creates the artifact's record; returns the valid record and whether it is this attempt's.

        If another attempt was first, its record is valid and this attempt's files are removed.
        """
        share(self.path)
        stamps = {path: stamp(path) for path in self.path.rglob("*") if path.is_file()}
        files = describe_files(self.path)
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
        self.in_doubt = True
        path = f"{self.folder}/{names.RECORD_FILE}"
        if not self.store.create(path, record.to_json()):
            data = self.store.read(path) or self.store.read(f"{self.folder}/{names.ASIDE_FILE}")
            if data is None:  # removed by hand at that very moment
                raise FileNotFoundError(f"{self.store.url}/{path}")
            record = parse_record(data, f"{self.store.url}/{self.folder}")
        ours = record.attempt == self.id
        self._clean(ours)
        if ours and isinstance(self.store, LocalStore):
            whole = {
                path.relative_to(self.path).as_posix(): before
                for path, before in stamps.items()
                if stamp(path) == before and is_settled(before)
            }
            remember(self.store, self.data, whole)
        return record, ours

    def abandon(self) -> None:
        """Removes the files of this attempt, unless its record was written or may have been written."""
        self._clean(keep=self.in_doubt)

    def _clean(self, keep: bool) -> None:
        if not isinstance(self.store, LocalStore):
            shutil.rmtree(self.path, ignore_errors=True)
        if not keep:
            self.store.remove(self.data)
