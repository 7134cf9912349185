"""The artifact record: the one file whose existence makes an artifact exist.

An artifact's data are under `<store>/<kind>/<key>/attempts/<id>/`. `artifact.json` is created last and exclusively, in
`<store>/<kind>/<key>/`: without it there is no artifact, and the first of several attempts wins. Its seal, a sha256 of
its other content, tells a damaged record from a valid one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from shlex import quote
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, BaseModel

from multiview import names
from multiview.artifacts.store import Store, open_store
from multiview.config import JsonObject, canonical_json, text_sha256
from multiview.errors import InputError, safe

SCHEMA_VERSION = 2
SEAL = "seal"


class DamagedRecord(InputError):
    """A record was altered or cannot be read as one, or a file is not as its record says."""


class ArtifactGone(InputError):
    """An artifact that something refers to is not in its store any more."""


def _inside(path: str) -> str:
    if {"", ".", ".."} & {*path.split("/")} or safe(path) != path:
        raise ValueError(f"{path!r} is no path inside a folder")
    return path


PathInside = Annotated[str, AfterValidator(_inside)]
"""A path that leads to no place outside its folder, and that a terminal can show: a store may be another person's."""


class File(BaseModel, frozen=True):
    """One file of an artifact; `rows` is set if the format has rows."""

    path: PathInside
    bytes: int
    sha256: str
    rows: int | None = None

    def flaw(self, size: int, sha256: str | None = None) -> str | None:
        """Returns what is wrong with a file of this size and, if given, digest; None if nothing is."""
        if size != self.bytes:
            return f"has {size} bytes instead of {self.bytes}"
        return "was altered (its sha256 differs)" if sha256 not in (None, self.sha256) else None


class Reference(BaseModel, frozen=True):
    """An input of a step: an artifact, or one file of it."""

    address: str
    digest: str
    file: str | None = None

    @classmethod
    def to(cls, store: Store, record: Record) -> Reference:
        """Returns a reference to a record's whole artifact."""
        return cls(address=f"{store.url}/{record.folder}", digest=record.digest)

    @property
    def kind(self) -> str:
        return split_address(self.address)[1]

    @property
    def key(self) -> str:
        return split_address(self.address)[2]

    def record_in(self, store: Store) -> Record | None:
        """Returns the record of the artifact of this kind and key in `store`; None if there is none."""
        return read_record(store, self.kind, self.key)


class Record(BaseModel, frozen=True):
    """The description of an artifact: its kind, its files and everything that it was made from."""

    schema_version: int = SCHEMA_VERSION
    kind: PathInside
    key: PathInside
    digest: PathInside
    attempt: PathInside
    step: str
    step_version: int
    config: JsonObject
    inputs: dict[str, list[Reference]]
    sources: JsonObject = {}
    files: list[File]
    facts: JsonObject = {}
    environment: JsonObject = {}
    created: str
    seconds: float

    @property
    def folder(self) -> str:
        """The artifact's folder, relative to its store."""
        return f"{self.kind}/{self.key}"

    @property
    def data(self) -> str:
        """The folder of the artifact's files, relative to its store."""
        return f"{self.folder}/attempts/{self.attempt}"

    def file(self, path: str) -> File:
        """Returns the entry of one file. Raises InputError if the artifact has no such file."""
        for file in self.files:
            if file.path == path:
                return file
        raise InputError(f"{self.folder} has no file {path}; it has {[f.path for f in self.files]}")

    def to_json(self) -> bytes:
        """Returns the bytes of the record's file, with its seal."""
        content = json.loads(self.model_dump_json())
        content[SEAL] = text_sha256(canonical_json(content))
        return json.dumps(content, indent=1, ensure_ascii=False).encode() + b"\n"


class Artifact(NamedTuple):
    """An artifact: the store where it was found, and its record."""

    store: Store
    record: Record

    @property
    def address(self) -> str:
        return f"{self.store.url}/{self.record.folder}"

    @property
    def reference(self) -> Reference:
        return Reference.to(*self)

    def input(self, name: str) -> Artifact | None:
        """Returns the first artifact that was read as input `name`, if any. Raises InputError if it is gone."""
        if not (references := self.record.inputs.get(name)):
            return None
        return load_reference(references[0], f"{self.record.folder}: {name}", self.store)

    def remembered_input(self, name: str) -> Artifact | None:
        """Returns the artifact read as input `name`, even if its files were collected; None if it is gone."""
        try:
            return self.input(name)
        except InputError:
            return find(self.record.inputs[name][0], self.store, read_collected)


def digest_of(files: Iterable[File]) -> str:
    """Returns an artifact's digest, the sha256 of the sorted paths and sha256s of its files."""
    lines = sorted(f"{file.path}\0{file.sha256}\n" for file in files)
    return text_sha256("".join(lines))


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def describe_files(folder: Path) -> list[File]:
    """Returns an entry per file below a folder, sorted by path; entries of Parquet files have row counts."""
    files = []
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        rows = None
        if path.suffix == ".parquet":
            import pyarrow.parquet as parquet

            rows = parquet.read_metadata(path).num_rows
        name, size = path.relative_to(folder).as_posix(), path.stat().st_size
        files.append(File(path=name, bytes=size, sha256=file_sha256(path), rows=rows))
    return sorted(files, key=lambda file: file.path)


def read_record(store: Store, kind: str, key: str, file: str = names.RECORD_FILE) -> Record | None:
    """Returns the record of an artifact; None if there is none."""
    data = store.read(f"{kind}/{key}/{file}")
    return None if data is None else parse_record(data, f"{store.url}/{kind}/{key}")


def read_whole(store: Store, kind: str, key: str) -> Record | None:
    """Returns the record of an artifact even if `multiview gc` has put it aside, as its files stay while a run refers
    to it; None if there is none."""
    return read_record(store, kind, key) or read_record(store, kind, key, names.ASIDE_FILE)


def read_collected(store: Store, kind: str, key: str) -> Record | None:
    """Returns the record of an artifact whose files were collected; None if there is none, or it is damaged: the
    artifact can be made again all the same."""
    with contextlib.suppress(DamagedRecord):
        return read_record(store, kind, key, names.COLLECTED_FILE)
    return None


def parse_record(data: bytes, address: str) -> Record:
    """Returns the record that a file's bytes hold.

    Raises DamagedRecord if they hold none or it was altered, and InputError if another version of multiview wrote it.
    """
    try:
        content = json.loads(data)
        seal, later = content.pop(SEAL, None), content["schema_version"] > SCHEMA_VERSION
        if content["schema_version"] == SCHEMA_VERSION:
            if seal != text_sha256(canonical_json(content)):
                raise ValueError("the seal is of another record")
            return Record.model_validate(content)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DamagedRecord(f"{address}/{names.RECORD_FILE} is damaged: {way_out(address)}") from error
    if later:
        raise InputError(f"{address} was written by a later version of multiview: upgrade multiview")
    raise InputError(
        f"{address} was written by a version of multiview that this one does not read: remove the folder and run again"
    )


def way_out(address: str) -> str:
    """Returns the end of an error line about the damaged artifact at an address: how to mend it."""
    return f"remove the folder {address} (multiview repair {quote(address)}) and run again"


def split_address(address: str, where: str = "") -> tuple[str, str, str]:
    """Returns store URL, kind and key of an address `<store>/<kind>/<key>`. Raises InputError, with a line that begins
    with `where`, for anything else."""
    parts = address.rstrip("/").rsplit("/", 2)
    # With `..` as kind, the record found would name another address, and `multiview repair` would take it for damaged.
    if len(parts) != 3 or not all(parts) or {".", ".."} & {*parts[1:]} or "\0" in address:
        raise InputError(f"{where}{address!r} is no artifact address: expected STORE/KIND/KEY")
    return parts[0], parts[1], parts[2]


def load_record(address: str, setting: str = "", kind: str | None = None) -> Artifact:
    """Returns the artifact at an address.

    Raises InputError if there is no such artifact, or it is not of `kind`, if that is given; the line begins with the
    `setting` that holds the address.

    >>> store, record = load_record(address)
    >>> record.step, sorted(record.inputs)
    ('index', ['embeddings', 'model', 'passages'])
    """
    where = f"{setting}: " if setting else ""
    url, *place = split_address(address, where)
    store = open_store(url)
    record = read_whole(store, *place)
    if record is None:
        gone = "multiview gc collected it; " if read_collected(store, *place) else ""
        raise InputError(f"{where}there is no artifact at {address}: {gone}run the step that makes it again")
    if kind not in (None, record.kind):
        wanted = f"an {kind}" if kind == names.INDEX else f"a {kind}"
        raise InputError(f"{where}{address} is the address of {record.kind}, not of {wanted}")
    return Artifact(store, record)


def in_store(reference: Reference, store: Store | None) -> Reference:
    """Returns a reference to the same artifact in `store` if that has it too, such as a copy; else `reference`."""
    if store is None:
        return reference
    _, kind, key = split_address(reference.address)
    record = read_whole(store, kind, key)
    same = record is not None and record.digest == reference.digest
    return reference.model_copy(update={"address": f"{store.url}/{kind}/{key}"}) if same else reference


ReadRecord = Callable[[Store, str, str], Record | None]
"""`read_record`, `read_whole` or `read_collected`."""


def find(reference: Reference, near: Store | None, read: ReadRecord = read_whole) -> Artifact | None:
    """Returns the artifact of a reference; None if it is gone or was rebuilt with other bytes.

    The store `near` is tried before the reference's own, so references in a store that was moved or copied stay valid;
    equal digests mean equal content.
    """
    url, kind, key = split_address(reference.address)
    for store in _stores(near, url):
        if (record := read(store, kind, key)) and record.digest == reference.digest:
            return Artifact(store, record)
    return None


def _stores(near: Store | None, url: str) -> Iterator[Store]:
    if near is not None:
        yield near
    if near is None or near.url != url:
        yield open_store(url)


def load_reference(reference: Reference, reader: str, near: Store | None = None) -> Artifact:
    """Returns the artifact of a reference, as `find` does. Raises ArtifactGone if it is gone, and InputError if it was
    rebuilt with other bytes; the line names `reader`."""
    if artifact := find(reference, near):
        return artifact
    url, kind, key = split_address(reference.address)
    record = read_whole(open_store(url), kind, key)
    if record is None or record.digest == reference.digest:  # if equal, made again at this very moment
        raise ArtifactGone(
            f"{reader}: there is no artifact at {reference.address}: run the step that makes it again"
        )
    raise InputError(
        f"{reader}: {reference.address} has digest {record.digest[:12]}… instead of "
        f"{reference.digest[:12]}…: it was rebuilt since; run the pipeline again"
    )
