"""The lineage of an artifact: the tree of records of its inputs, down to the sources outside the store.

A record says everything that its artifact was made from, so a lineage needs only the store. `trace` reads the records;
`flaws` reads every byte of their files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from shlex import quote

from multiview import names
from multiview.artifacts.bucket_store import PART
from multiview.artifacts.record import (
    File,
    Record,
    Reference,
    digest_of,
    find,
    load_reference,
    read_collected,
    split_address,
    way_out,
)
from multiview.artifacts.staging import broken_file
from multiview.artifacts.store import Store
from multiview.errors import InputError
from multiview.steps.step import StepInput
from multiview.steps.table import STEPS


@dataclass(frozen=True, eq=False)
class LineageNode:
    """An artifact of a lineage, in the store where it was found."""

    store: Store
    record: Record
    inputs: dict[str, list[LineageInput]] = field(default_factory=dict)
    """The artifacts that the step read, by input name."""
    collected: bool = False
    """Whether the files were collected, because nothing needed them any more."""

    @property
    def last(self) -> bool:
        """Whether the lineage ends here: at the older index that an index was refreshed from, unless others read it."""
        return self.inputs.keys() != self.record.inputs.keys()

    @property
    def address(self) -> str:
        return f"{self.store.url}/{self.record.folder}"

    @property
    def bytes(self) -> int:
        """Size of the artifact's files in bytes; 0 if they were collected."""
        return 0 if self.collected else sum(file.bytes for file in self.record.files)

    @property
    def rows(self) -> int | None:
        """Number of rows of all files; None if no file has rows."""
        counts = [file.rows for file in self.record.files if file.rows is not None]
        return sum(counts) if counts else None


@dataclass(frozen=True)
class LineageInput:
    """An artifact as the record of its reader names it."""

    reference: Reference
    node: LineageNode | None
    """The artifact; None if it is gone, damaged, or replaced by another one."""
    flaw: str | None = None
    """One line about why there is no node; None if there is one."""


@dataclass(frozen=True)
class Lineage:
    """Some artifacts, the roots, with everything that they were made from."""

    roots: list[LineageInput]
    nodes: list[LineageNode]
    """Every artifact once, even if several steps read it."""

    @property
    def bytes(self) -> int:
        return sum(node.bytes for node in self.nodes)

    @property
    def broken(self) -> list[str]:
        """One line per artifact that is gone, damaged, or different from the artifact that was read."""
        reads = (read for node in self.nodes for inputs in node.inputs.values() for read in inputs)
        return list(dict.fromkeys(read.flaw for read in (*self.roots, *reads) if read.flaw))


def trace(references: Iterable[Reference]) -> Lineage:
    """Returns the lineage of some artifacts, from their records alone.

    The store of an input's reader is tried first, so the lineage of a store that was moved or copied stays complete.
    Broken inputs are part of the lineage, with their flaws; an artifact that was collected is not broken.
    """
    known: dict[tuple[str, str, str], LineageNode] = {}
    pending: list[LineageNode] = []

    def read(reference: Reference, reader: str, near: Store | None, last: bool = False) -> LineageInput:
        _, kind, key = split_address(reference.address)
        node = known.get((kind, key, reference.digest))
        try:
            if node is None:
                node = _node(reference, reader, near)
                if (node.record.kind, node.record.key) != (kind, key):
                    raise InputError(
                        f"{node.store.url}/{kind}/{key} holds the record of {node.record.folder}: "
                        + way_out(f"{node.store.url}/{kind}/{key}")
                    )
                known[kind, key, reference.digest] = node
            if not last and node.last and node not in pending:
                pending.append(node)
            if reference.file:
                node.record.file(reference.file)
        except InputError as error:
            return LineageInput(reference, None, str(error))
        return LineageInput(reference, node)

    roots = [read(reference, "lineage", None) for reference in references]
    while pending:
        node = pending.pop(0)
        superseded = STEPS[node.record.step].supersedes if node.record.step in STEPS else None
        for name, inputs in node.record.inputs.items():
            reader, last = f"{name} of {node.record.folder}", name == superseded
            node.inputs[name] = [read(reference, reader, node.store, last) for reference in inputs]
    return Lineage(roots, list(known.values()))


def _node(reference: Reference, reader: str, near: Store | None) -> LineageNode:
    """Returns an artifact's node. Raises InputError if it is gone without having been collected, or was replaced."""
    try:
        return LineageNode(*load_reference(reference, reader, near))
    except InputError:
        if collected := find(reference, near, read_collected):
            return LineageNode(*collected, collected=True)
        raise


def corpus_of(lineage: Lineage) -> Record | None:
    """Returns the record of a lineage's passages; None if it has none, such as the lineage of a base model."""
    passages = (node.record for node in lineage.nodes if node.record.kind == names.PASSAGES)
    return next(passages, None)


def corpus_name(passages: Record) -> str:
    """Returns a short name made of the source files of passages: `passages.parquet`, `train.json+dev.json`."""
    sources = passages.sources.get("corpus") or [
        file for use in ("questions", "dev_questions") for file in passages.sources.get(use, ())
    ]
    files = list(dict.fromkeys(file["name"] for file in sources))
    return "+".join(files) if len(files) < 3 else f"{files[0]}+{len(files) - 1}-more"


def flaws(lineage: Lineage, progress: Callable[[int], None] = lambda size: None) -> Iterator[str]:
    """Yields one line per flaw of a lineage, reading every byte of its files; `progress` gets each piece's size.

    Flaws are files that are missing, short, altered or superfluous, records that were altered (told by their seals),
    artifacts that were replaced since they were read (told by their digests), and settings, inputs or sources that do
    not match the key.

    Neither digest nor key covers facts, environment and times, so a change to these goes undetected in a record that
    was rewritten with a new seal. Sources outside the store are not read again.
    """
    yield from lineage.broken
    for node in lineage.nodes:
        yield from node_flaws(node, progress)


def node_flaws(node: LineageNode, progress: Callable[[int], None] = lambda size: None) -> Iterator[str]:
    """Yields one line per flaw of one artifact, as `flaws` does for a whole lineage."""
    store, record, ending = node.store, node.record, way_out(node.address)
    if record.digest != digest_of(record.files):
        yield f"{node.address}: its digest is not that of the files that its record names: {ending}"
    if not node.last and (key := _key(node)) is not None and key != record.key:
        yield f"{node.address}: its key is not that of the settings, inputs and sources of its record: {ending}"
    if node.collected:
        return
    for file in record.files:
        if flaw := _flaw(store, f"{record.data}/{file.path}", file, progress):
            yield broken_file(store, record, file.path, flaw)
    for path in superfluous_files(store, record):
        yield f"{store.url}/{path} is no file of the artifact: remove it (multiview repair {quote(node.address)})"


def superfluous_files(store: Store, record: Record) -> list[str]:
    """Returns the files in an artifact's folder that its record does not name, as paths relative to its store."""
    recorded = {f"{record.data}/{file.path}" for file in record.files}
    return [path for path in store.files(record.data) if path not in recorded]


def _key(node: LineageNode) -> str | None:
    """Returns the key that an artifact should have by its record; None if an input is broken, or if this version does
    not know the step or has another version of it."""
    record, step = node.record, STEPS.get(node.record.step)
    if step is None or step.version != record.step_version:
        return None
    reads: dict[str, list[StepInput]] = {}
    for name in record.inputs.keys() - set(step.unkeyed_inputs):
        found = [(each.reference, each.node) for each in node.inputs[name]]
        reads[name] = [StepInput(reference, made.store, made.record) for reference, made in found if made]
        if len(reads[name]) < len(found):
            return None
    return step.key_of(record.config, step.input_digests(reads), record.sources)


def _flaw(store: Store, path: str, file: File, progress: Callable[[int], None]) -> str | None:
    digest, size = hashlib.sha256(), 0
    try:
        with store.open(path) as stream:
            while block := stream.read(PART):
                digest.update(block)
                size += len(block)
                progress(len(block))
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error})"
    return file.flaw(size, digest.hexdigest())
