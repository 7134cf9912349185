"""Access to the artifacts that an artifact was made from, by their records."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from multiview.artifacts.record import Record, load_record, load_reference, read_collected
from multiview.artifacts.staging import Recorded, Staged, stage
from multiview.artifacts.store import Store
from multiview.errors import InputError


@dataclass(frozen=True)
class Ancestor:
    """An artifact in its store."""

    store: Store
    record: Record

    @classmethod
    def of(cls, staged: Staged | Recorded) -> Ancestor | None:
        """Returns the artifact of a step's input; None if its address is not known."""
        return cls(*load_record(staged.address)) if staged.address else None

    def input(self, name: str) -> Ancestor | None:
        """Returns the first artifact that was read as input `name`; None if there was none.

        Raises InputError if the artifact is gone.
        """
        references = self.record.inputs.get(name)
        if not references:
            return None
        return Ancestor(*load_reference(references[0], f"{self.record.folder}: {name}", near=self.store))

    def remembered_input(self, name: str) -> Ancestor | None:
        """Returns the artifact that was read as input `name`, for its record only: it may have been collected.

        Returns None if there was no such input, or its record is gone too.
        """
        references = self.record.inputs.get(name)
        if not references:
            return None
        try:
            return self.input(name)
        except InputError:
            collected = read_collected(references[0], self.store)
            return collected and Ancestor(*collected)

    def folder(self) -> Path:
        """Returns the folder of the artifact's files on local disk."""
        return stage(self.store, self.record).path

    def file(self, name: str) -> Path:
        """Returns one of the artifact's files on local disk; other files are not fetched."""
        return stage(self.store, self.record, name).path / name
