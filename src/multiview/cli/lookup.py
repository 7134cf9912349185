"""Lookup of a typed name: an address, a run, a model in MLflow, `champion` or `challenger`."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from multiview import names, tracking
from multiview.artifacts.champions import address_of, champion_of, current
from multiview.artifacts.record import (
    Reference,
    in_store,
    load_record,
    load_reference,
    read_collected,
    read_whole,
    split_address,
)
from multiview.artifacts.store import Store, open_store
from multiview.errors import InputError
from multiview.refresh.champion import challenger_of
from multiview.steps.path import StepPath, last_rounds, unfinished_rounds
from multiview.steps.runs import StepState, find_run, finished_outputs, read_states
from multiview.tracking import MODEL_URI, TrackedRun

LOGGED_MODEL = re.compile(r"(models:/)?m-[0-9a-f]{32}")
"""A logged model's id in MLflow."""

AnyRun = list[StepState] | TrackedRun
"""A run, as the states of its steps in a store, or as MLflow knows it."""

Form = Literal["champion", "challenger", "logged model", "registered model", "address", "run"]


def form_of(text: str) -> Form:
    """Returns what a name stands for, by its form; a run may be part of one. Raises InputError for a wrong URI."""
    if text == names.CHAMPION:
        return "champion"
    if text == names.CHALLENGER:
        return "challenger"
    if LOGGED_MODEL.fullmatch(text):
        return "logged model"
    if MODEL_URI.fullmatch(text):
        return "registered model"
    if text.startswith("models:"):
        raise InputError(f"{text} names no registered model: give models:/NAME@ALIAS or models:/NAME/VERSION")
    return "address" if "/" in text else "run"


@dataclass
class Lookup:
    """Finds the artifacts behind typed names. Store and MLflow are opened when a name first needs them."""

    given_store: str | None
    """The store with runs and champions; None: `names.DEFAULT_STORE`."""
    given_uri: str | None
    """The URI of MLflow; None: that of the store's own database."""

    @cached_property
    def store(self) -> Store:
        return open_store(self.given_store or names.DEFAULT_STORE)

    @cached_property
    def tracking_uri(self) -> str:
        """URI of the MLflow that names are looked up in."""
        return self.given_uri or tracking.tracking_uri(self.store)

    def tracking_uri_for(self, text: str) -> str:
        """Returns the URI of the MLflow to register a named index in, by default that of an address's own store."""
        if form_of(text) == "address" and self.given_store is None and self.given_uri is None:
            return tracking.tracking_uri(open_store(split_address(text)[0]))
        return self.tracking_uri

    def artifacts(self, text: str) -> list[Reference]:
        """Returns the named artifact, a run's final artifacts or a step's outputs. Raises InputError for none."""
        match form_of(text):
            case "logged model":
                logged = tracking.logged_model(self.tracking_uri, text.removeprefix("models:/"))
                return [in_store(logged, self.store)]
            case "run":
                return [in_store(each, self.store) for each in run_artifacts(text, self._run(text))]
            case _:
                url, *place = split_address(address := self.index(text))
                store = open_store(url)
                collected = None if read_whole(store, *place) else read_collected(store, *place)
                return [Reference.to(store, collected) if collected else load_record(address).reference]

    def index(self, text: str | None) -> str:
        """Returns the address of the named index; without a name, of the champion's index, else of the newest run's.
        Raises InputError for a name that does not exist, is a model, or has no index or several."""
        if text is None:
            champion = current(self.store)
            return address_of(self.store, champion) if champion else newest_index(self.store)
        match form_of(text):
            case "address":
                return text
            case "run":
                return run_index(text, self._run(text), self.store)
            case "champion":
                return address_of(self.store, champion_of(self.store))
            case "challenger":
                return self._challenger()
            case "registered model":
                return tracking.registered_index(self.tracking_uri, text)
            case "logged model":
                raise InputError(
                    f"{text.removeprefix('models:/')} is a logged model, not an index: give an index's address, "
                    f"models:/NAME@ALIAS, a run's id, or {names.CHAMPION}"
                )

    def _challenger(self) -> str:
        champion = champion_of(self.store)
        if not (index := challenger_of(self.store, champion)):
            raise InputError(
                f"store {self.store.url} has no challenger: no refresh was refused against champion {champion.number}"
            )
        return load_reference(index, "the challenger", self.store).address

    def _run(self, run: str) -> AnyRun:
        """Returns the run with this id in the store, else in MLflow."""
        if run in self.store.folders(names.RUNS):
            return list(read_states(self.store, run))
        return tracking.find_run(self.tracking_uri, run)


def run_artifacts(name: str, run: AnyRun) -> list[Reference]:
    """Returns a run's artifacts that none of its steps reads, or a step's outputs. Raises InputError for none."""
    if isinstance(run, TrackedRun) and run.step is not None:
        artifacts = list(run.steps[run.step].outputs.values())
    else:
        steps = run if isinstance(run, list) else _own_steps(run)
        read = {each.address for step in steps for each in step.read}
        made = {each.address: each for step in steps for each in step.outputs.values()}
        artifacts = [each for address, each in made.items() if address not in read]
    if not artifacts:
        raise InputError(f"{name} has made nothing yet: wait for it, or run it again")
    return artifacts


def _own_steps(run: TrackedRun) -> list[StepState]:
    """The steps of a run, or of a system, without the steps of the run that it partly reruns."""
    steps = run.steps_of_system()
    return [steps[path] for path in run.run.steps if path in steps]


def run_index(name: str, run: AnyRun, near: Store) -> str:
    """Returns the address of the last index of a run's only system, or of a system in MLflow; for a step, that of the
    index that it built or searched. A copy in the store `near` is preferred. Raises InputError if there is no index, or
    if several systems have one."""
    if isinstance(run, TrackedRun) and run.step is not None:
        step = run.steps[run.step]
        for index in (step.outputs.get(names.INDEX), *step.inputs.get(names.INDEX, [])):
            if index:
                return in_store(index, near).address
    states = run if isinstance(run, list) else run.steps_of_system().values()
    indexes = finished_outputs(states, names.INDEX)
    paths = last_rounds(map(StepPath.parse, sorted(indexes)))
    last = {system: in_store(indexes[str(path)], near).address for system, path in paths.items()}
    if not last:
        raise InputError(f"run {name} has no index yet: finish it, or give --index")
    described = find_run(near, name) if isinstance(run, list) else run.run
    # A refresh also searches the index that it begins with.
    if described and described.pipeline == "refresh" and names.CHALLENGER in last:
        last = {names.CHALLENGER: last[names.CHALLENGER]}
    if missing := unfinished_rounds(paths, described.steps if described else (), "index"):
        raise InputError(
            f"run {name} has not finished {missing[0]}: let it finish, or give --index with an address"
        )
    if len(last) > 1:
        listed = ", ".join(f"{system}: {address}" for system, address in last.items())
        raise InputError(f"run {name} has several systems; choose one with --index: {listed}")
    return next(iter(last.values()))


def newest_index(store: Store) -> str:
    """Returns the index of the newest finished run with one. Raises InputError for none, and for several systems."""
    candidates: list[tuple[float, str, list[StepState]]] = []
    for run in store.folders(names.RUNS):
        states = list(read_states(store, run))
        finished = {state.path for state in states if state.finished}
        described = find_run(store, run) if finished_outputs(states, names.INDEX) else None
        if described and finished.issuperset(described.steps):
            candidates.append((max(state.ended or 0.0 for state in states), run, states))
    if not candidates:
        store.check_exists()
        raise InputError(
            f"store {store.url} has no finished run with an index: run a pipeline, or give --index or --store"
        )
    _, run, states = max(candidates, key=lambda candidate: candidate[:2])
    return run_index(run, states, store)
