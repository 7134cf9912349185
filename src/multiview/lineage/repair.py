"""Repair of a damaged artifact: it is deleted, so that the command that made it makes only this one again."""

import contextlib
import shlex
from collections import defaultdict
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

Makers = defaultdict[ArtifactId, dict[str, StepState]]
"""Artifact to the runs that made or found it, each with the state of its step."""


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
    removed = _removed(store, kind, key)  # before, so that whatever it raises leaves the artifact
    for file in (names.ASIDE_FILE, names.RECORD_FILE):
        store.remove(f"{folder}/{file}")
    if record:  # else it is unknown which attempt was the artifact's: `multiview gc` collects them
        store.remove(verified_file(record.data))
        store.remove(record.data)
    yield removed


def _removed(store: Store, kind: str, key: str) -> str:
    """Returns the line that says which commands recreate the artifact."""
    makers: Makers = defaultdict(dict)
    for run in store.folders(names.RUNS):
        with contextlib.suppress(InputError):  # a damaged state, about which the run's command says more
            for state in read_states(store, run):
                for output in state.outputs:
                    makers[output, state.key][run] = state
    removed = f"removed {store.url}/{kind}/{key}"
    if not (reruns := _reruns(store, makers, (kind, key), set())):
        return f"{removed}: the command that made it makes it again"
    commands = " && ".join(f"python -m pipelines {shlex.join(rerun)}" for rerun in reruns)
    run = next(iter(makers[kind, key]))
    return f"{removed}: the command of run {run} makes it again; or, and so for a champion's: {commands}"


def _reruns(store: Store, makers: Makers, artifact: ArtifactId, begun: set[ArtifactId]) -> list[list[str]]:
    """Returns the reruns that make an artifact from what the store has; none where no run made it. `begun` are those
    that reruns were already looked for, which must not be taken for there."""
    runs = makers[artifact]
    if not runs or artifact in begun:
        return []
    begun.add(artifact)

    def gone(step: StepState) -> list[ArtifactId]:
        read = {(each.kind, each.key): each for each in step.read}
        return [each for each in read if each in begun or not _is_there(store, read[each])]

    run = min(runs, key=lambda run: (bool(gone(runs[run])), runs[run].status == "found"))
    steps, reruns = [runs[run]], list[list[str]]()
    while missing := gone(steps[-1]):
        for each in missing:
            if run not in makers[each]:
                reruns += _reruns(store, makers, each, begun)
        above = [makers[each][run] for each in missing if run in makers[each]]
        if not above or above[0] in steps:
            break
        steps.append(above[0])
    more = ["--downstream"][: len(steps) - 1]
    path = str(StepPath.parse(steps[-1].path).whole) if more else steps[-1].path
    return [*reruns, ["rerun", path, "--from", run, "--store", store.url, *more]]


def _is_there(store: Store, reference: Reference) -> bool:
    with contextlib.suppress(InputError):  # damaged too
        return find(reference, store) is not None
    return False
