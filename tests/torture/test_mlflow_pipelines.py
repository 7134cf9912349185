"""A training and a refresh, run by KFP here, whose MLflow fails at some requests, is away for a while, or for good."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from multiview import names, tracking
from multiview.artifacts.local_store import LocalStore
from multiview.artifacts.record import Record, load_record
from multiview.artifacts.staging import verify
from multiview.artifacts.store import open_store
from multiview.config.overrides import Overrides
from multiview.plans.plan import Plan
from multiview.steps.runs import Run, read_states
from tests.fixtures.faulty_proxy import Fault, FaultyProxy, faulty_proxy
from tests.fixtures.injection import forks
from tests.fixtures.reported_run import held
from tests.fixtures.servers import AT_ONCE, mlflow_server, new_database
from tests.fixtures.tally import COMPARED, Tally
from tests.fixtures.tortured import is_dated
from tests.fixtures.tortured_plans import training_plan

EVERY = 4
"""Requests of which one fails."""
PASSING: tuple[Fault, ...] = ("503", "lost", "short")
"""What a request may meet now and then; `refused` is what all meet while MLflow is away."""
AWAY = range(6, 16)
"""Requests that do not reach a server which is away for a while."""


def run_and_ship(plan: Plan, name: str, url: str, uri: str) -> None:
    """In a process of its own: runs the plan as the command does, and ships all the time."""
    os.environ.update(AT_ONCE)
    from multiview.tracking import shipping
    from pipelines.runs.local import run_here

    shipping.SHIP_SECONDS = shipping.FIRST_SECONDS = 0.1
    steps = [str(path) for path in plan.paths()]
    run = Run(id=name, pipeline=plan.name, config={}, steps=steps, architectures=plan.architectures)
    run_here(plan, run, open_store(url), uri)


@dataclass
class ShippedPipeline:
    """A pipeline, the store before it, a real MLflow behind a proxy, and what an undisturbed run leaves in the store."""

    folder: Path
    plan: Plan
    proxy: FaultyProxy
    expected: dict[str, Record] = field(default_factory=dict)
    runs: int = 0

    @property
    def store(self) -> LocalStore:
        return LocalStore(self.folder / "store")

    @property
    def name(self) -> str:
        """The id of the last run: MLflow keeps the earlier ones."""
        return f"run-{self.runs}"

    def measure(self) -> None:
        """Runs the pipeline without faults."""
        assert self.run(lambda number, method, path: "none") == 0
        self.expected = self.outputs()

    def run(self, decide: Callable[[int, str, str], Fault]) -> int | None:
        """The exit status of the pipeline, from the store as it was before it."""
        shutil.rmtree(self.store.root, ignore_errors=True)
        shutil.copytree(self.folder / "before", self.store.root)
        self.proxy.reset(decide)
        self.runs += 1
        words = (self.plan, self.name, self.store.url, self.proxy.url)
        process = forks().Process(target=run_and_ship, args=words)
        process.start()
        process.join(timeout=300)
        process.kill()
        return process.exitcode

    def outputs(self) -> dict[str, Record]:
        """The outputs of all steps, every byte of which is read."""
        found = {}
        for state in read_states(self.store, self.name):
            for kind, reference in state.outputs.items():
                place, found[f"{state.path} {kind}"] = load_record(reference.address)
                verify(place, found[f"{state.path} {kind}"])
        return found

    def differences(self) -> list[str]:
        """The outputs that are not those of the undisturbed run."""
        found, expected = self.outputs(), self.expected
        return [
            name
            for name in sorted(found.keys() | expected.keys())
            if name not in found
            or name not in expected
            or (not is_dated(name) and found[name].digest != expected[name].digest)
        ]

    def shipped_elsewhere(self, folder: Path) -> dict:
        """What another MLflow holds of the run that is shipped to it without faults."""
        copy = LocalStore(folder / "store")
        shutil.copytree(self.store.root, copy.root, ignore=shutil.ignore_patterns("mlflow"))
        uri = new_database(folder)
        assert tracking.ship(copy, self.name, uri)
        return held(uri, self.name, copy, self.store)


@pytest.fixture(scope="module", params=["training", pytest.param("refresh", marks=pytest.mark.torture)])
def pipeline(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ShippedPipeline]:
    folder = tmp_path_factory.mktemp(request.param)
    one_round: Overrides = {"train": {"rounds": 1}}
    if request.param == "training":
        plan = training_plan(folder, one_round)
    else:
        plan = request.getfixturevalue("first_champion").changed_once(folder).plan()
    store = folder / "store"
    store.mkdir(exist_ok=True)
    # Runs of fixtures have no descriptions to ship.
    shutil.rmtree(store / names.RUNS, ignore_errors=True)
    store.rename(folder / "before")
    served = folder / "served"
    words = ["server", "--backend-store-uri", new_database(served)]
    words += ["--artifacts-destination", str(served / "artifacts")]
    with mlflow_server(words, served) as address, faulty_proxy(address) as proxy:
        made = ShippedPipeline(folder, plan, proxy)
        made.measure()
        yield made


@pytest.mark.parametrize(
    "what",
    ["for good", *(pytest.param(what, marks=pytest.mark.torture) for what in ("for a while", *PASSING))],
)
def test_a_pipeline_whose_mlflow_fails_makes_the_same_and_loses_nothing(
    pipeline: ShippedPipeline, tmp_path: Path, what: str, tally: Tally
) -> None:
    """The pipeline ends well with the same artifacts; then `multiview sync` brings MLflow to what an undisturbed shipment of
    the same run leaves in another."""
    proxy = pipeline.proxy

    def decide(number: int, method: str, path: str) -> Fault:
        if what in PASSING:
            return what if number % EVERY == 0 else "none"
        return "refused" if number in AWAY or (what == "for good" and number > min(AWAY)) else "none"

    assert pipeline.run(decide) == 0
    faults = proxy.faults
    assert faults, "MLflow was asked"
    assert what != "for a while" or len(proxy.asked) >= AWAY.stop, "it came back during the run"
    assert not pipeline.differences()
    proxy.reset(lambda number, method, path: "none")
    _, failed = tracking.sync(pipeline.store, proxy.url)
    assert not failed
    assert held(proxy.url, pipeline.name, pipeline.store) == pipeline.shipped_elsewhere(tmp_path)
    name = f"{pipeline.plan.name}, MLflow {what if what in PASSING else f'down {what}'}"
    tally.survived(faults, of=name)
    compared = [record for key, record in pipeline.expected.items() if not is_dated(key)]
    tally.add(COMPARED, sum(len(record.files) for record in compared), of=name)
