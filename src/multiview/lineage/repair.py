"""Repair of a damaged artifact: it is deleted, so that the command that made it makes only this one again."""

import contextlib
import shlex
from collections.abc import Iterator

from multiview import names
from multiview.artifacts.record import DamagedRecord, Reference, read_record, split_address
from multiview.artifacts.staging import verified_file
from multiview.artifacts.store import Store, open_store
from multiview.errors import InputError
from multiview.lineage.trace import node_flaws, superfluous_files, trace
from multiview.steps.path import StepPath
from multiview.steps.runs import StepState, read_states


def repair(address: str) -> Iterator[str]:
    """Deletes a damaged artifact, its record first; yields a line per flaw, and one about the outcome. If the only flaw
    is superfluous files, only these are deleted. Raises InputError if there is nothing at the address."""
    url, kind, key = split_address(address)
    store = open_store(url)
    folder = f"{kind}/{key}"
    flaws: list[str] = []
    try:
        record = read_record(store, kind, key)
        if record is None:
            raise InputError(f"there is no artifact at {address}: run the step that makes it")
        if record.folder != folder:
            flaws, record = [f"{url}/{folder} holds the record of {record.folder}"], None
    except DamagedRecord:
        flaws, record = [f"{url}/{folder}/{names.RECORD_FILE} is damaged"], None
    superfluous = superfluous_files(store, record) if record else []
    for path in superfluous:
        yield f"{url}/{path} is no file of the artifact"
        store.remove(path)
    if record:
        (root,) = trace([Reference.to(store, record)]).roots
        flaws = [root.flaw or ""] if root.node is None else list(node_flaws(root.node))
    if record and not flaws:
        yield f"{address} is whole" + (" again" if superfluous else ": nothing to repair")
        return
    yield from (flaw.partition(": remove ")[0] for flaw in flaws)
    for file in (names.ASIDE_FILE, names.RECORD_FILE):
        store.remove(f"{folder}/{file}")
    if record:  # else it is unknown which attempt was the artifact's: `multiview gc` collects them
        store.remove(verified_file(record.data))
        store.remove(record.data)
    yield _removed(store, kind, key)


def _removed(store: Store, kind: str, key: str) -> str:
    """Returns the line that says which command recreates the artifact."""
    removed = f"removed {store.url}/{kind}/{key}"
    for run in store.folders(names.RUNS):
        try:
            states = list(read_states(store, run))
        except InputError:  # a damaged state, about which the run's command says more
            continue
        if made := _maker(states, kind, key):
            first = _first(store, states, made)
            path = str(StepPath.parse(first.path).whole) if first != made else made.path
            rerun = shlex.join(["rerun", path, "--from", run, "--store", store.url])
            rerun += " --downstream" * (first != made)
            return (
                f"{removed}: the command of run {run} makes it again, or that step alone, which is the way for a "
                f"champion's: python -m pipelines {rerun}"
            )
    return f"{removed}: the command that made it makes it again"


def _maker(states: list[StepState], kind: str, key: str) -> StepState | None:
    """Returns the step that made an artifact."""
    return next((each for each in states if each.key == key and kind in each.outputs), None)


def _first(store: Store, states: list[StepState], made: StepState) -> StepState:
    """Returns the step to begin with where `made` is to run again: the maker of an input that was collected, or its."""
    for each in made.read:
        with contextlib.suppress(DamagedRecord):
            maker = _maker(states, each.kind, each.key)
            if maker and each.record_in(store) is None:
                return _first(store, states, maker)
    return made
