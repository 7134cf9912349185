"""All artifacts that an artifact was made from."""

from __future__ import annotations

from collections.abc import Iterator

from multiview.artifacts.record import Record, Reference, load_record, load_reference
from multiview.artifacts.store import Store


def ancestry(address: str) -> dict[str, tuple[Store, Record]]:
    """Store and record of an artifact and of all that it was made from, by address, each after its inputs.

    They are looked for in the artifact's own store first, so that a store may be moved. Raises InputError for one
    that is gone, or was rebuilt with other bytes.
    """
    found: dict[str, tuple[Store, Record]] = {}

    def visit(where: str, store: Store, record: Record) -> None:
        if where in found:
            return
        for reference in inputs_of(record):
            visit(reference.address, *load_reference(reference, where, store))
        found[where] = store, record

    visit(address, *load_record(address))
    return found


def inputs_of(record: Record) -> Iterator[Reference]:
    """The artifacts that a record names as inputs, each once."""
    yield from {r.address: r for references in record.inputs.values() for r in references}.values()
