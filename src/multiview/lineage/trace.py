"""Where an artifact comes from: the tree of records that made it, down to what came from outside.

A record names its inputs by address and digest, its step with version, settings and code, and the sources
that were read from outside the store, so the store alone tells a lineage. `trace` reads the records, `flaws`
every byte that they name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from multiview import names
from multiview.artifacts.record import (
    File,
    Record,
    Reference,
    digest_of,
    load_record,
    load_reference,
    read_collected,
    split_address,
)
from multiview.artifacts.staging import broken_file
from multiview.artifacts.store import PART, Store
from multiview.errors import InputError
from multiview.steps.table import STEPS


@dataclass(frozen=True, eq=False)
class Node:
    """An artifact of a lineage, in the store where it was found."""

    store: Store
    record: Record
    inputs: dict[str, list[Input]] = field(default_factory=dict)
    """What its step read, by the step's names for it."""
    collected: bool = False
    """Whether its files are gone, because nothing needed them any more."""
    last: bool = False
    """Whether the lineage ends here: at the older index that one was made from."""

    @property
    def address(self) -> str:
        return f"{self.store.url}/{self.record.folder}"

    @property
    def bytes(self) -> int:
        """Of its files, as far as they are there."""
        return 0 if self.collected else sum(file.bytes for file in self.record.files)

    @property
    def rows(self) -> int | None:
        """Rows of all its files that have some; None where none has."""
        counts = [file.rows for file in self.record.files if file.rows is not None]
        return sum(counts) if counts else None


@dataclass(frozen=True)
class Input:
    """One artifact as its reader names it."""

    reference: Reference
    node: Node | None
    """None where there is no such artifact, or another one in its place."""
    flaw: str | None = None
    """Why it is not what was read, in one line."""


@dataclass(frozen=True)
class Lineage:
    """Artifacts with all that they were made from."""

    roots: list[Input]
    nodes: list[Node]
    """Every artifact once, however many steps read it."""

    @property
    def inputs(self) -> Iterator[Input]:
        """The roots, and each input of each artifact."""
        yield from self.roots
        for node in self.nodes:
            for inputs in node.inputs.values():
                yield from inputs

    @property
    def bytes(self) -> int:
        return sum(node.bytes for node in self.nodes)

    @property
    def broken(self) -> list[str]:
        """A line for each artifact that is gone, damaged, or not the one that was read."""
        return list(dict.fromkeys(one.flaw for one in self.inputs if one.flaw))


def reference_of(address: str) -> Reference:
    """The artifact at an address, as it is now. Raises InputError if there is none."""
    return Reference.to(*load_record(address))


def trace(references: Iterable[Reference]) -> Lineage:
    """The lineage of some artifacts, from their records alone.

    An input is looked for in its reader's own store first, so a store that was moved or copied still holds
    together. What is broken is told in the lineage; what was collected is not broken. The index that another one was
    refreshed from is the last of its line: what is behind it has a lineage of its own.
    """
    known: dict[tuple[str, str, str], Node] = {}
    pending: list[Node] = []

    def find(reference: Reference, reader: str, near: Store | None, last: bool = False) -> Input:
        _, kind, key = split_address(reference.address)
        node = known.get((kind, key, reference.digest))
        try:
            if node is None:
                node = _node(reference, reader, near, last)
                if (node.record.kind, node.record.key) != (kind, key):
                    there = f"{node.store.url}/{kind}/{key}"
                    raise InputError(
                        f"{there} holds the record of {node.record.folder}: remove it and run again"
                    )
                known[kind, key, reference.digest] = node
                if not last:
                    pending.append(node)
            if reference.file:
                node.record.file(reference.file)
        except InputError as error:
            return Input(reference, None, str(error))
        return Input(reference, node)

    roots = [find(reference, "lineage", None) for reference in references]
    while pending:
        node = pending.pop(0)
        for name, read in node.record.inputs.items():
            reader, last = f"{name} of {node.record.folder}", name == _renewed(node.record)
            node.inputs[name] = [find(reference, reader, node.store, last) for reference in read]
    return Lineage(roots, list(known.values()))


def _node(reference: Reference, reader: str, near: Store | None, last: bool) -> Node:
    """Raises InputError for an artifact that is gone without having been collected, or another one."""
    try:
        return Node(*load_reference(reference, reader, near), last=last)
    except InputError:
        if found := read_collected(reference, near):
            return Node(*found, collected=True, last=last)
        raise


def _renewed(record: Record) -> str | None:
    """The input of which an artifact is a newer form."""
    return STEPS[record.step].supersedes if record.step in STEPS else None


def corpus_of(lineage: Lineage) -> Record | None:
    """The passages of a lineage; None where it has none, as a base model's."""
    found = (node.record for node in lineage.nodes if node.record.kind == names.PASSAGES)
    return next(found, None)


def corpus_name(passages: Record) -> str:
    """The files that passages were read from, as a short name: `passages.parquet`, `train.json+dev.json`."""
    read = passages.sources.get("corpus") or [
        file for use in ("questions", "dev_questions") for file in passages.sources.get(use, ())
    ]
    files = list(dict.fromkeys(file["name"] for file in read))
    return "+".join(files) if len(files) < 3 else f"{files[0]}+{len(files) - 1}-more"


def flaws(lineage: Lineage, told: Callable[[int], None] = lambda read: None) -> Iterator[str]:
    """Read every byte of a lineage: a line for each thing that is not as it was when it was written.

    Files are read in pieces; `told` is called with the number of bytes of each. Files that are missing, short,
    altered or too many are found, records that say anything else than they did (by their seal), artifacts that
    are not the ones that were read (by their digests), and settings or sources that are not those of the key.
    What cannot be found is a record that someone rewrites together with its seal where neither digest nor key
    covers it: its facts, environment and times. Sources outside the store are named, and not read again.
    """
    yield from lineage.broken
    for node in lineage.nodes:
        yield from _record_flaws(node)
        if not node.collected:
            yield from _file_flaws(node, told)


def _record_flaws(node: Node) -> Iterator[str]:
    record, way_out = node.record, f"remove the folder {node.address} and run again"
    if record.digest != digest_of(record.files):
        yield f"{node.address}: its digest is not that of the files that its record names: {way_out}"
    if not node.last and (key := _key(node)) is not None and key != record.key:
        yield f"{node.address}: its key is not that of the settings, inputs and sources of its record: {way_out}"


def _key(node: Node) -> str | None:
    """The key that an artifact should have by its record; None where inputs are broken or the step is not known."""
    record, step = node.record, STEPS.get(node.record.step)
    if step is None or step.version != record.step_version:
        return None
    records: dict[str, list[Record]] = {}
    for name in record.inputs.keys() - set(step.unkeyed_inputs):
        inputs = node.inputs[name]
        if any(read.node is None or read.flaw for read in inputs):
            return None
        records[name] = [read.node.record for read in inputs if read.node]
    return step.key_of_record(record, records)


def _file_flaws(node: Node, told: Callable[[int], None]) -> Iterator[str]:
    store, record = node.store, node.record
    for file in record.files:
        if problem := _problem(store, f"{record.data}/{file.path}", file, told):
            yield broken_file(store, record, file.path, problem)
    named = {f"{record.data}/{file.path}" for file in record.files}
    for path in store.files(record.data):
        if path not in named:
            yield f"{store.url}/{path} is no file of the artifact: remove it"


def _problem(store: Store, path: str, file: File, told: Callable[[int], None]) -> str | None:
    digest, size = hashlib.sha256(), 0
    try:
        with store.open(path) as stream:
            while block := stream.read(PART):
                digest.update(block)
                size += len(block)
                told(len(block))
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error})"
    if size != file.bytes:
        return f"has {size} bytes instead of {file.bytes}"
    return None if digest.hexdigest() == file.sha256 else "was altered (its sha256 differs)"
