"""Garbage in a store: unfinished attempts, and checkpoints, embeddings, changes, indexes and exports nobody refers to.

An artifact is kept while it is young, or while a champion, an alias in MLflow or a recent run refers to it. Models,
passages, questions, evaluations and all other kinds are never collected. Records are removed first: a half-removed
artifact does not exist, and the same command later removes the rest.

Runs may go on meanwhile. A step that finds an artifact notes that in its run and then looks for the artifact once more;
a collection puts all records aside, looks at the runs once more, and puts back what is referred to by then. So one sees
the other: the artifact that a step found stays, or the step makes it again. While a record is aside, steps read it
there; a record that was put back stays aside as well. All this holds for one collection at a time: each writes a file
and then looks for those of others, so of two that begin together at least one gives up.
"""

import json
import socket
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from multiview import names
from multiview.artifacts import champions
from multiview.artifacts.champions import Champion, champion_numbers, read_champion
from multiview.artifacts.record import Reference, parse_record, read_record, split_address
from multiview.artifacts.staging import verified_file
from multiview.artifacts.store import Entry, Store
from multiview.errors import InputError
from multiview.steps.runs import StepState, find_run, read_states

COLLECTABLE = (names.CHECKPOINT, names.EMBEDDINGS, names.CHANGES, names.INDEX, names.EXPORT)
"""Kinds of artifacts to collect: they can be made again from those that are kept."""
NO_ARTIFACTS = (names.RUNS, names.CHAMPIONS, names.STARTS, names.COLLECTIONS, names.ANSWERS)
"""Folders of a store that hold no artifacts."""
ATTEMPT = "attempt"
"""The kind of a `Garbage` that never became an artifact."""
ATTEMPTS = "attempts"
"""The folder of an artifact's attempts."""
DAY = 86_400.0
"""Seconds per day."""
LIVE_DAYS = 7.0
"""Days that a step may work, or a run may pause between two steps, and still count as alive."""
START_SECONDS = 60.0
"""Seconds within which the first steps of a run begin."""
DEAD_SECONDS = 43_200.0
"""Seconds of silence after which a collection counts as dead: half a day, so that the next day's can do the work."""
ALIVE_SECONDS = 600.0
"""Seconds between two signs of life of a collection."""

ArtifactId = tuple[str, str]
"""Kind and key of an artifact."""
ReportKept = Callable[[str], object]
"""Receives a line for each damaged file, with the way out; whatever the file may describe is kept."""


@dataclass(frozen=True)
class Garbage:
    """An artifact or an attempt that can be removed."""

    kind: str
    """The artifact's kind, or `ATTEMPT`."""
    path: str
    """The folder in the store."""
    bytes: int

    @property
    def is_artifact(self) -> bool:
        """Whether there is a record, which must be removed first."""
        return self.kind != ATTEMPT


def referenced(
    store: Store,
    days: float,
    champions: int,
    indexes: Iterable[str] = (),
    report_kept: ReportKept = lambda line: None,
) -> set[ArtifactId]:
    """Returns the artifacts that something refers to.

    References come from the champions with the newest `champions` indexes, from the addresses `indexes` (of aliases
    in MLflow), and from runs that had a step at work in the last `days`, may still be running, or are damaged.
    """
    addresses = [*indexes, *(reference.address for reference in _champion_references(store, champions))]
    made: set[ArtifactId] = set()
    since = time.time() - days * DAY
    for run in store.folders(names.RUNS):
        states = list(read_states(store, run))
        recent = any((state.ended or state.started) >= since for state in states)
        if recent or _may_be_running(store, run, states, report_kept):
            for state in states:
                addresses += [reference.address for reference in (*state.outputs.values(), *state.read)]
            # A step may have published these without having noted it yet.
            made |= {(kind, state.key) for state in states for kind in COLLECTABLE}
    return made | {_artifact_id(address) for address in addresses}


def _champion_references(store: Store, champions: int) -> Iterator[Reference]:
    """Yields the artifacts of the champions with the newest `champions` indexes; a rollback repeats an index."""
    indexes: set[ArtifactId] = set()
    for number in reversed(champion_numbers(store)):
        champion = read_champion(store, number)
        indexes.add(_artifact_id(champion.index.address))
        if len(indexes) > champions:
            return
        yield from champion.references().values()


def _may_be_running(store: Store, run: str, states: list[StepState], report_kept: ReportKept) -> bool:
    """Whether a run has unfinished steps and one was at work recently; True if its description cannot be read."""
    try:
        described = find_run(store, run)
    except InputError as error:
        report_kept(f"{error}; all that its steps used is kept")
        return True
    if described is None:
        return False
    steps = described.steps
    # A repeated command overwrites the states of its run: older states belong to an earlier start.
    first = next((state.started for path in steps for state in states if state.path == path), 0.0)
    # Steps without inputs may begin long before the one that is listed first, such as a base model's download.
    current = [state for state in states if not state.inputs or state.started >= first - START_SECONDS]
    finished = {state.path for state in current if state.finished}
    # A step whose pod was ended may begin again on another node.
    failed = any(state.status == "failed" and (state.ended or state.started) >= first for state in current)
    working = any(state.status == "running" for state in current)  # even beside a step that failed
    last = max((state.ended or state.started for state in states), default=0.0)
    unfinished = (working or not failed) and not finished.issuperset(steps)
    return unfinished and last >= time.time() - LIVE_DAYS * DAY


def collectable(
    store: Store, keep: set[ArtifactId], days: float, report_kept: ReportKept = lambda line: None
) -> Iterator[Garbage]:
    """Yields the artifacts that are not in `keep` and the unfinished attempts, if unmodified for `days`."""
    since = time.time() - days * DAY
    for kind in store.folders(""):
        if kind in NO_ARTIFACTS:
            continue
        for key in store.folders(kind):
            yield from _collectable(store, kind, key, keep, since, report_kept)


def _collectable(
    store: Store, kind: str, key: str, keep: set[ArtifactId], since: float, report_kept: ReportKept
) -> Iterator[Garbage]:
    """Yields the whole artifact, or its attempts that do not hold its data."""
    folder = f"{kind}/{key}"
    entries = store.entries(folder)
    try:
        record = read_record(store, kind, key)
        aside = None if record else read_record(store, kind, key, names.ASIDE_FILE)
    except InputError as error:  # left for a person to inspect
        report_kept(str(error))
        return
    if aside:  # put there by another collection, which may be alive
        record, since = aside, min(since, time.time() - DAY)
    # The empty index of a store without a champion is small, and the first champion's can only be made again from it.
    can_go = record and kind in COLLECTABLE and record.step != names.CHAMPION
    if can_go and not _is_kept(folder, keep) and not _young(entries, since):
        yield Garbage(kind, folder, sum(entry.bytes for entry in entries))
        return
    attempts: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.path.startswith(f"{folder}/{ATTEMPTS}/"):
            attempts.setdefault(_attempt_of(entry.path), []).append(entry)
    for attempt, files in attempts.items():
        published = record is not None and record.attempt == attempt
        if not published and not _young(files, min(since, time.time() - DAY)):
            yield Garbage(ATTEMPT, f"{folder}/{ATTEMPTS}/{attempt}", sum(entry.bytes for entry in files))


def _attempt_of(path: str) -> str:
    """Returns the attempt that a file belongs to; a leading dot marks a file whose writer was killed."""
    return path.split("/")[3].lstrip(".").partition(".")[0]


def _young(entries: Iterable[Entry], since: float) -> bool:
    return any(entry.modified >= since for entry in entries)


def remove_all(
    store: Store, pieces: Iterable[Garbage], referenced_now: Callable[[], set[ArtifactId]]
) -> Iterator[Garbage]:
    """Removes pieces, and yields each that is gone. All are put aside first, and those that `referenced_now` then
    returns are put back.

    The record of an artifact stays under another name, so that lineages can still be traced through it. `pieces` is
    only read once no other collection is at work. Raises InputError if one is.
    """
    with only_collection(store) as say_alive:
        pieces = list(pieces)
        for piece in pieces:
            say_alive()
            _put_aside(store, piece)
        keep = referenced_now() if any(piece.is_artifact for piece in pieces) else set()
        kept = [piece for piece in pieces if piece.is_artifact and _is_kept(piece.path, keep)]
        for piece in kept:
            say_alive()
            _put_back(store, piece.path)
        for piece in pieces:
            if piece not in kept:
                say_alive()
                _drop(store, piece)
                yield piece


def _drop(store: Store, garbage: Garbage) -> None:
    """Removes the files of an artifact that was put aside, or of an attempt."""
    data = garbage.path
    if garbage.is_artifact:
        aside = f"{garbage.path}/{names.ASIDE_FILE}"
        if not (record := store.read(aside)):
            return
        store.replace(f"{garbage.path}/{names.COLLECTED_FILE}", record)
        store.remove(aside)  # from now on no step starts to read it
        data = parse_record(record, garbage.path).data  # other attempts, which may be alive, are left alone
        store.remove(verified_file(data))
    else:
        folder, _, attempt = data.rpartition("/")
        for file in store.files(folder):
            if _attempt_of(file) == attempt:
                store.remove(file)
    store.remove(data)


def _put_aside(store: Store, garbage: Garbage) -> None:
    """Moves the record of an artifact to another file: from now on there is no such artifact."""
    record = f"{garbage.path}/{names.RECORD_FILE}"
    if garbage.is_artifact and (data := store.read(record)):
        store.replace(f"{garbage.path}/{names.ASIDE_FILE}", data)
        store.remove(record)


def _put_back(store: Store, folder: str) -> None:
    """Undoes `_put_aside`. If another attempt made the artifact since, both stay: a step may be reading the old one."""
    if data := store.read(f"{folder}/{names.ASIDE_FILE}"):
        store.create(f"{folder}/{names.RECORD_FILE}", data)


def _is_kept(folder: str, keep: Set[ArtifactId]) -> bool:
    """Whether something refers to the artifact in a folder; a checkpoint's key is its model's key and a step."""
    kind, key = folder.split("/")
    return (kind, key.rpartition("-")[0] if kind == names.CHECKPOINT else key) in keep


def rollback(store: Store, to: int | None = None) -> Champion:
    """Makes an earlier champion's index the next champion's (see `champions.rollback`) while no collection can begin,
    and puts back what a killed one has put aside of it. Raises InputError if a collection is at work."""
    champions.champion_of(store)  # raises before anything is written
    with only_collection(store):
        champion = champions.rollback(store, to)
        for artifact in champion.load(store).values():
            _put_back(artifact.store, artifact.record.folder)
    return champion


def _artifact_id(address: str) -> ArtifactId:
    _, kind, key = split_address(address)
    return kind, key


@contextmanager
def only_collection(store: Store) -> Iterator[Callable[[], None]]:
    """Keeps other collections away from a store; yields a function to call before each change, as a sign of life.

    Raises InputError if another collection is at work; the function does if this one was taken for dead meanwhile.
    """
    file, said = f"{names.COLLECTIONS}/{uuid.uuid4().hex}.json", time.time()
    begun = json.dumps(
        {"host": socket.gethostname(), "begun": datetime.now(UTC).isoformat(timespec="seconds")}
    )

    def say_alive() -> None:
        nonlocal said
        if time.time() - said < ALIVE_SECONDS:
            return
        if store.read(file) is None:
            raise InputError(
                f"store {store.url}: this collection was silent for long and taken for dead; run it again"
            )
        store.replace(file, begun.encode())
        said = time.time()

    store.replace(file, begun.encode())
    try:
        _check_alone(store, file)
        yield say_alive
    finally:
        with suppress(OSError):  # if files cannot be removed, the collection itself has failed with that
            store.remove(file)


def _check_alone(store: Store, own: str) -> None:
    """Removes the files of dead collections. Raises InputError if another one is at work."""
    for other in store.entries(names.COLLECTIONS):
        if other.path == own:
            continue
        if other.modified < time.time() - DEAD_SECONDS:
            store.remove(other.path)
            continue
        since = datetime.fromtimestamp(other.modified, UTC).strftime("%Y-%m-%d %H:%M UTC")
        raise InputError(
            f"store {store.url}: a multiview gc --delete or a rollback is at work, last heard of at {since}; run this when it "
            f"has ended, or, if it was killed, remove {store.url}/{other.path} first"
        )
