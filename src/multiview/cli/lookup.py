"""Which artifacts a command's argument names: an address, a run, a step of a run, a logged or registered model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from multiview import names
from multiview.artifacts.record import Reference
from multiview.artifacts.store import open_store
from multiview.errors import InputError
from multiview.lineage.trace import reference_of
from multiview.steps.runs import read_states


def artifacts_named(name: str, store: str, tracking_uri: str | None) -> list[Reference]:
    """The artifacts that `name` stands for: the one at an address or behind a model of MLflow's, what a run ended
    with, or what a step of a run made. Raises InputError for what is not there.

    `store` is where our own runs are looked for first, and where MLflow's database lies unless a URI says otherwise.
    """
    if "/" in name and not name.startswith("models:"):
        return [reference_of(name)]
    opened = open_store(store)
    if name in opened.folders(names.RUNS):
        states = list(read_states(opened, name))
        return _ends(name, ((state.inputs, state.outputs) for state in states))
    from multiview import tracking  # three seconds, which addresses and runs of the store need not wait for

    uri = tracking_uri or tracking.tracking_uri(opened)
    if tracking.LOGGED_MODEL.fullmatch(name):
        return [tracking.logged_model(uri, name)]
    if name.startswith("models:"):
        return [reference_of(tracking.registered_index(uri, name))]
    found = tracking.find_run(uri, name)
    if found.step is not None:
        return _ends(name, [({}, found.steps[found.step].outputs)])
    own = [found.steps[path] for path in found.run.steps if path in found.steps]
    return _ends(name, ((step.inputs, step.outputs) for step in own))


def _ends(
    name: str, steps: Iterable[tuple[Mapping[str, list[Reference]], Mapping[str, Reference]]]
) -> list[Reference]:
    """The outputs (by kind) of steps that none of them reads: what they end with."""
    steps = list(steps)
    read = {reference.address for inputs, _ in steps for each in inputs.values() for reference in each}
    made = {reference.address: reference for _, outputs in steps for reference in outputs.values()}
    ends = [reference for address, reference in made.items() if address not in read]
    if not ends:
        raise InputError(f"{name} has made nothing yet: wait for it, or run it again")
    return ends
