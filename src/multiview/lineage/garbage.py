"""What a store may lose: attempts that nobody finished, checkpoints, embeddings and indexes that nobody refers to.

An artifact is kept while it is young, or a champion, an alias in MLflow or a recent run names it. Models, passages,
questions, evaluations and all other kinds are never collected. A record goes first, into another file: what is half
removed does not exist, and the same command goes on with the rest.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from multiview import names
from multiview.artifacts.champions import numbers, read_champion
from multiview.artifacts.record import Record, parse_record, read_record, split_address
from multiview.artifacts.store import Entry, Store
from multiview.errors import InputError
from multiview.steps.runs import StepState, read_run, read_states

COLLECTED = (names.CHECKPOINT, names.EMBEDDINGS, names.CHANGES, names.INDEX)
"""Kinds that can be made again from what is kept."""
OTHERS = (names.RUNS, names.CHAMPIONS)
"""Folders of a store that hold no artifacts."""
ATTEMPTS = "attempts"
DAY = 86_400.0
LIVE_DAYS = 7.0
"""So long may a step be at work, or a run between two steps, and still be alive."""
TOGETHER = 60.0
"""Seconds within which the first steps of a run begin."""

Named = tuple[str, str]
"""Kind and key."""


@dataclass(frozen=True)
class Garbage:
    """Something that can go."""

    what: str
    """Its kind; `attempt` for what never became an artifact."""
    path: str
    """Its folder in the store."""
    bytes: int
    record: bool
    """Whether it is an artifact, whose record goes first."""


def kept(store: Store, days: float, champions: int, indexes: Iterable[str] = ()) -> set[Named]:
    """What is referred to: by the champions with the newest `champions` indexes, by aliases of the addresses `indexes`,
    by runs of which a step was at work in the last `days`, and by those that may be going."""
    found: set[Named] = set()
    answered: set[Named] = set()
    for number in reversed(numbers(store)):
        champion = read_champion(store, number)
        answered.add(_named(champion.index.address))
        if len(answered) > champions:
            break
        found |= {_named(reference.address) for reference in champion.references().values()}
    found |= {_named(address) for address in indexes}
    since = time.time() - days * DAY
    for run in store.folders(names.RUNS):
        states = list(read_states(store, run))
        if any((state.ended or state.started) >= since for state in states) or _may_be_going(
            store, run, states
        ):
            for state in states:
                references = [*state.outputs.values(), *(one for of in state.inputs.values() for one in of)]
                found |= {_named(reference.address) for reference in references}
    return found


def _may_be_going(store: Store, run: str, states: list[StepState]) -> bool:
    """Whether a run has steps to come, and one of them was at work not long ago."""
    try:
        steps = read_run(store, run).steps
    except InputError:  # nobody has said what it is
        return False
    # A command that is given again writes over the states of the same run: those from before it began are not its own.
    begun = next((state.started for path in steps for state in states if state.path == path), 0.0) - TOGETHER
    own = [state for state in states if state.started >= begun]
    ended = {state.path for state in own if state.status in ("done", "found")}
    failed = any(state.status == "failed" for state in own)
    last = max((state.ended or state.started for state in states), default=0.0)
    unfinished = not failed and not set(steps) <= ended
    return unfinished and last >= time.time() - LIVE_DAYS * DAY


def garbage(store: Store, keep: set[Named], days: float) -> Iterator[Garbage]:
    """What nothing in `keep` refers to and nobody has touched for `days`."""
    since = time.time() - days * DAY
    for kind in [folder for folder in store.folders("") if folder not in OTHERS]:
        for key in store.folders(kind):
            yield from _of(store, kind, key, keep, since)


def _of(store: Store, kind: str, key: str, keep: set[Named], since: float) -> Iterator[Garbage]:
    folder = f"{kind}/{key}"
    entries = store.entries(folder)
    try:
        record = read_record(store, kind, key)
    except InputError:  # damaged: for a person to look at
        return
    if record and kind in COLLECTED and (kind, key) not in keep and not _young(entries, since):
        yield Garbage(kind, folder, sum(entry.bytes for entry in entries), True)
        return
    attempts: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.path.startswith(f"{folder}/{ATTEMPTS}/"):
            attempts.setdefault(entry.path.split("/")[3].partition(".")[0], []).append(entry)
    for attempt, files in attempts.items():
        if not _is_of(record, attempt) and not _young(files, min(since, time.time() - DAY)):
            path = f"{folder}/{ATTEMPTS}/{attempt}"
            yield Garbage("attempt", path, sum(entry.bytes for entry in files), False)


def _is_of(record: Record | None, attempt: str) -> bool:
    return record is not None and record.attempt == attempt


def _young(entries: Iterable[Entry], since: float) -> bool:
    return any(entry.modified >= since for entry in entries)


def remove(store: Store, one: Garbage) -> None:
    """Remove it; what is gone already is no error.

    The record of an artifact is kept under another name, so that lineages still lead through it.
    """
    if not one.record:
        store.remove(one.path)
        store.remove(f"{one.path}.events.jsonl")
        return
    record = f"{one.path}/{names.RECORD_FILE}"
    if data := store.read(record):
        store.replace(f"{one.path}/{names.COLLECTED_FILE}", data)
        store.remove(record)
        # Another attempt, which may be alive, is not of this record.
        store.remove(parse_record(data, one.path).data)


def summary(found: Iterable[Garbage]) -> str:
    """One line: how many of what, and how large."""
    number: Counter[str] = Counter()
    size: Counter[str] = Counter()
    for one in found:
        number[one.what] += 1
        size[one.what] += one.bytes
    parts = [f"{count} {what} ({size[what] / 1e6:,.1f} MB)" for what, count in sorted(number.items())]
    return ", ".join(parts)


def _named(address: str) -> Named:
    _, kind, key = split_address(address)
    return kind, key
