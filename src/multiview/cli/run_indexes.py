"""Which index is meant: an address, a run's, or that of a store's newest finished run."""

from __future__ import annotations

from collections.abc import Mapping

from multiview import names
from multiview.artifacts.store import Store
from multiview.errors import InputError
from multiview.steps.path import StepPath, last_rounds
from multiview.steps.runs import StepState, read_run, read_states


def newest_index(store: Store) -> str:
    """Address of the index of the run that finished last, of those that made one.

    Raises InputError if there is none, or if that run has several systems.
    """
    finished = []
    for run in store.folders(names.RUNS):
        states = {state.path: state for state in read_states(store, run)}
        done = all(path in states and _done(states[path]) for path in read_run(store, run).steps)
        if done and (outputs := index_outputs(states)):
            finished.append((max(state.ended or 0.0 for state in states.values()), run, outputs))
    if not finished:
        raise InputError(
            f"store {store.url} has no finished run with an index: run a pipeline, or give --index or --store"
        )
    _, run, outputs = max(finished, key=lambda entry: entry[:2])
    return choose(run, outputs)


def index_of_run(store: Store, run: str) -> str:
    """Address of a run's index. Raises InputError if it has none, or those of several systems."""
    return choose(run, index_outputs({state.path: state for state in read_states(store, run)}))


def index_outputs(states: Mapping[str, StepState]) -> dict[str, str]:
    """Address of each index that a run has made, by the path of its step."""
    return {
        path: state.outputs[names.INDEX].address
        for path, state in states.items()
        if _done(state) and names.INDEX in state.outputs
    }


def choose(run: str, outputs: Mapping[str, str]) -> str:
    """The one index of a run: of its only system, from the last round.

    `outputs`: address by step's path, such as `camvr/round-2/index`. Raises InputError.
    """
    paths = last_rounds(StepPath.parse(path) for path in sorted(outputs))
    last = {system: outputs[str(path)] for system, path in paths.items()}
    if not last:
        raise InputError(f"run {run} has no index yet: finish it, or give --index")
    if len(last) > 1:
        listed = ", ".join(f"{system}: {address}" for system, address in last.items())
        raise InputError(f"run {run} has several systems; choose one with --index: {listed}")
    return next(iter(last.values()))


def _done(state: StepState) -> bool:
    return state.status in ("done", "found")
