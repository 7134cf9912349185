"""Repair of a damaged artifact: it is deleted, so that the command that made it makes only this one again."""

import contextlib
import shlex
from collections.abc import Iterator

from multiview import names
from multiview.artifacts.record import DamagedRecord, Reference, find, read_record, split_address
from multiview.artifacts.staging import verified_file
from multiview.artifacts.store import Store, open_store
from multiview.errors import InputError
from multiview.lineage.garbage import ArtifactId
from multiview.lineage.trace import node_flaws, superfluous_files, trace
from multiview.steps.path import StepPath
from multiview.steps.runs import StepState, read_states

Makers = dict[ArtifactId, tuple[str, StepState]]
"""Artifact to a run that made it and the state of its step."""


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
    """Returns the line that says which commands recreate the artifact."""
    makers: Makers = {}
    for run in store.folders(names.RUNS):
        with contextlib.suppress(InputError):  # a damaged state, about which the run's command says more
            makers |= {
                (made, each.key): (run, each) for each in read_states(store, run) for made in each.outputs
            }
    removed = f"removed {store.url}/{kind}/{key}"
    if not (reruns := _reruns(store, makers, (kind, key))):
        return f"{removed}: the command that made it makes it again"
    commands = " && ".join(f"python -m pipelines {shlex.join(rerun)}" for rerun in reruns)
    return f"{removed}: the command of run {makers[kind, key][0]} makes it again; or, and so for a champion's: {commands}"


def _reruns(store: Store, makers: Makers, artifact: ArtifactId) -> list[list[str]]:
    """Returns the reruns that make an artifact from what the store has; none where no run made it."""
    if artifact not in makers:
        return []
    run, step = makers[artifact]
    first, others = step, dict[ArtifactId, None]()
    while gone := [(each.kind, each.key) for each in first.read if not _is_there(store, each)]:
        of_run = [each for each in gone if each in makers and makers[each][0] == run]
        others |= dict.fromkeys(each for each in gone if each not in of_run)
        if not of_run:
            break
        first = makers[of_run[0]][1]
    before = [rerun for each in others for rerun in _reruns(store, makers, each)]
    more = [] if first == step else ["--downstream"]
    path = str(StepPath.parse(first.path).whole) if more else step.path
    return [*before, ["rerun", path, "--from", run, "--store", store.url, *more]]


def _is_there(store: Store, reference: Reference) -> bool:
    with contextlib.suppress(InputError):  # damaged too
        return find(reference, store) is not None
    return False
