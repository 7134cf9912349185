"""Repair of a damaged artifact: it leaves its store, and the command that made it makes it again, and it alone."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from multiview import names
from multiview.artifacts.record import DamagedRecord, Record, Reference, read_record, split_address
from multiview.artifacts.staging import verified_file
from multiview.artifacts.store import Store, open_store
from multiview.errors import InputError
from multiview.lineage.trace import node_flaws, superfluous_files, trace
from multiview.steps.runs import StepState, read_states


def repair(address: str) -> Iterator[str]:
    """Removes the artifact at an address if any byte of it is not as it was written; yields one line per flaw, and one
    about the outcome.

    Its record goes first, so that an interrupted repair leaves no half artifact. Of an artifact with superfluous files
    only these are removed; a whole artifact is left alone. Raises InputError if there is nothing at the address.
    """
    url, kind, key = split_address(address)
    store = open_store(url)
    folder = f"{kind}/{key}"
    try:
        record = read_record(store, kind, key)
    except DamagedRecord:
        yield f"{url}/{folder}/{names.RECORD_FILE} is damaged"
        # Which attempt was the artifact's is not known any more: `multiview gc` collects them.
        _remove_record(store, folder)
        yield _removed(store, kind, key)
        return
    if record is None:
        raise InputError(f"there is no artifact at {address}: run the step that makes it")
    if (record.kind, record.key) != (kind, key):
        yield f"{url}/{folder} holds the record of {record.folder}"
        _remove_record(store, folder)
        yield _removed(store, kind, key)
        return
    superfluous = list(superfluous_files(store, record))
    for path in superfluous:
        yield f"{url}/{path} is no file of the artifact"
        store.remove(path)
    if flaws := _flaws(store, record):
        yield from (flaw.partition(": remove ")[0] for flaw in flaws)
        _remove_record(store, folder)
        store.remove(verified_file(record.data))
        store.remove(record.data)
        yield _removed(store, kind, key)
    else:
        yield f"{address} is whole" + (" again" if superfluous else ": nothing to repair")


def _remove_record(store: Store, folder: str) -> None:
    for file in (names.ASIDE_FILE, names.RECORD_FILE):
        store.remove(f"{folder}/{file}")


def _flaws(store: Store, record: Record) -> list[str]:
    (root,) = trace([Reference.to(store, record)]).roots
    return [root.flaw or ""] if root.node is None else list(node_flaws(root.node))


def _removed(store: Store, kind: str, key: str) -> str:
    """The line that says what makes an artifact again."""
    removed = f"removed {store.url}/{kind}/{key}"
    for run in store.folders(names.RUNS):
        try:
            states = list(read_states(store, run))
        except InputError:  # a damaged state, about which the run's command says more
            continue
        if made := next((state for state in states if _makes(state, kind, key)), None):
            rerun = shlex.join(["rerun", made.path, "--from", run, "--store", store.url])
            return f"{removed}: the command of run {run} makes it again, or that step alone: python -m pipelines {rerun}"
    return f"{removed}: the command that made it makes it again"


def _makes(state: StepState, kind: str, key: str) -> bool:
    return state.key == key and kind in state.outputs
