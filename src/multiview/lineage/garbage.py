"""What a store may lose: unfinished attempts, and checkpoints, embeddings, changes and indexes that nothing refers to.

An artifact is kept while it is young, or while a champion, an alias in MLflow or a recent run refers to it. Models,
passages, questions, evaluations and all other kinds are never collected. The record goes first, into another file: an
artifact that is half removed does not exist, and the same command goes on with the rest.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from multiview import names
from multiview.artifacts.champions import numbers, read_champion
from multiview.artifacts.record import Reference, parse_record, read_record, split_address
from multiview.artifacts.store import Entry, Store
from multiview.errors import InputError
from multiview.steps.runs import StepState, read_run, read_states

COLLECTED = (names.CHECKPOINT, names.EMBEDDINGS, names.CHANGES, names.INDEX)
"""Kinds of artifacts that can be made again from what is kept."""
OTHERS = (names.RUNS, names.CHAMPIONS)
"""Folders of a store that hold no artifacts."""
ATTEMPT = "attempt"
"""The kind of garbage that never became an artifact."""
ATTEMPTS = "attempts"
"""The folder of an artifact's attempts."""
DAY = 86_400.0
"""Seconds."""
LIVE_DAYS = 7.0
"""How long a step may be at work, or a run between two steps, and still be alive."""
TOGETHER = 60.0
"""Seconds within which the first steps of a run begin."""

ArtifactId = tuple[str, str]
"""Kind and key."""


@dataclass(frozen=True)
class Garbage:
    """An artifact or an attempt that can go."""

    kind: str
    """The artifact's kind, or `ATTEMPT`."""
    path: str
    """Its folder in the store."""
    bytes: int

    @property
    def is_artifact(self) -> bool:
        """Whether there is a record, which must go first."""
        return self.kind != ATTEMPT


def referenced(store: Store, days: float, champions: int, indexes: Iterable[str] = ()) -> set[ArtifactId]:
    """Returns the artifacts that something refers to.

    References are those of the champions with the newest `champions` indexes, the addresses `indexes` (of aliases in
    MLflow), and those of runs of which a step was at work in the last `days`, or that may still be going.
    """
    addresses = [reference.address for reference in _champion_references(store, champions)]
    addresses += indexes
    since = time.time() - days * DAY
    for run in store.folders(names.RUNS):
        states = list(read_states(store, run))
        recent = any((state.ended or state.started) >= since for state in states)
        if recent or _may_be_going(store, run, states):
            addresses += [reference.address for state in states for reference in _step_references(state)]
    return {_artifact_id(address) for address in addresses}


def _champion_references(store: Store, champions: int) -> Iterator[Reference]:
    """The artifacts of the champions with the newest `champions` indexes; a rollback names an index again."""
    indexes: set[ArtifactId] = set()
    for number in reversed(numbers(store)):
        champion = read_champion(store, number)
        indexes.add(_artifact_id(champion.index.address))
        if len(indexes) > champions:
            return
        yield from champion.references().values()


def _step_references(state: StepState) -> Iterator[Reference]:
    yield from state.outputs.values()
    for references in state.inputs.values():
        yield from references


def _may_be_going(store: Store, run: str, states: list[StepState]) -> bool:
    """Whether a run has steps to come, and one of its steps was at work not long ago."""
    try:
        steps = read_run(store, run).steps
    except InputError:  # nobody has said what the run is
        return False
    # The same command, given again, writes over the states of its run: older states are those of an earlier start.
    first = next((state.started for path in steps for state in states if state.path == path), 0.0)
    current = [state for state in states if state.started >= first - TOGETHER]
    finished = {state.path for state in current if state.finished}
    failed = any(state.status == "failed" for state in current)
    last = max((state.ended or state.started for state in states), default=0.0)
    unfinished = not failed and not finished.issuperset(steps)
    return unfinished and last >= time.time() - LIVE_DAYS * DAY


def collectable(store: Store, keep: set[ArtifactId], days: float) -> Iterator[Garbage]:
    """Yields the artifacts that are not in `keep`, and the unfinished attempts, that nobody has touched for `days`."""
    since = time.time() - days * DAY
    for kind in store.folders(""):
        if kind in OTHERS:
            continue
        for key in store.folders(kind):
            yield from _collectable(store, kind, key, keep, since)


def _collectable(store: Store, kind: str, key: str, keep: set[ArtifactId], since: float) -> Iterator[Garbage]:
    """Yields the whole artifact, or those of its attempts that are not its data."""
    folder = f"{kind}/{key}"
    entries = store.entries(folder)
    try:
        record = read_record(store, kind, key)
    except InputError:  # damaged: for a person to look at
        return
    if record and kind in COLLECTED and (kind, key) not in keep and not _young(entries, since):
        yield Garbage(kind, folder, sum(entry.bytes for entry in entries))
        return
    attempts: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.path.startswith(f"{folder}/{ATTEMPTS}/"):
            attempts.setdefault(entry.path.split("/")[3].partition(".")[0], []).append(entry)
    for attempt, files in attempts.items():
        published = record is not None and record.attempt == attempt
        if not published and not _young(files, min(since, time.time() - DAY)):
            yield Garbage(ATTEMPT, f"{folder}/{ATTEMPTS}/{attempt}", sum(entry.bytes for entry in files))


def _young(entries: Iterable[Entry], since: float) -> bool:
    return any(entry.modified >= since for entry in entries)


def remove(store: Store, garbage: Garbage) -> None:
    """Remove an artifact or an attempt; what is gone already is no error.

    The record of an artifact is kept under another name, so that lineages still lead through it.
    """
    if not garbage.is_artifact:
        store.remove(garbage.path)
        store.remove(f"{garbage.path}.events.jsonl")
        return
    record = f"{garbage.path}/{names.RECORD_FILE}"
    if data := store.read(record):
        store.replace(f"{garbage.path}/{names.COLLECTED_FILE}", data)
        store.remove(record)
        # Other attempts, which may be alive, are left alone.
        store.remove(parse_record(data, garbage.path).data)


def _artifact_id(address: str) -> ArtifactId:
    _, kind, key = split_address(address)
    return kind, key
