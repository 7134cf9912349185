"""From an artifact's record to those of what it was made from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from multiview.artifacts.record import Record, load_record, load_reference, read_collected
from multiview.artifacts.staged import Recorded, Staged
from multiview.artifacts.staging import stage
from multiview.artifacts.store import Store
from multiview.errors import InputError


@dataclass(frozen=True)
class Ancestor:
    """An artifact in its store."""

    store: Store
    record: Record

    @classmethod
    def of(cls, staged: Staged | Recorded) -> Ancestor | None:
        """The artifact that a step was given, if it is known."""
        return cls(*load_record(staged.address)) if staged.address else None

    def input(self, name: str) -> Ancestor | None:
        """The first artifact that was read as input `name`; None if there was none. Raises InputError if it is gone."""
        references = self.record.inputs.get(name)
        if not references:
            return None
        return Ancestor(*load_reference(references[0], f"{self.record.folder}: {name}", near=self.store))

    def told(self, name: str) -> Ancestor | None:
        """The same for its record alone: one that was collected is told of too, and None stands for one that is gone."""
        references = self.record.inputs.get(name)
        if not references:
            return None
        try:
            return self.input(name)
        except InputError:
            collected = read_collected(references[0], self.store)
            return collected and Ancestor(*collected)

    def folder(self) -> Path:
        """Its files on local disk."""
        return stage(self.store, self.record).path

    def file(self, name: str) -> Path:
        """One of its files on local disk, the others left where they are."""
        return stage(self.store, self.record, name).path / name
