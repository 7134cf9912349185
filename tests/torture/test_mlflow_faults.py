"""MLflow that fails, is down, or answers slowly: the steps go on, and everything arrives once."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from mlflow import MlflowClient

from multiview import tracking
from multiview.artifacts.store import LocalStore
from multiview.errors import InputError
from multiview.steps.runs import Run
from multiview.tracking import shipping
from tests.fixtures.faulty_proxy import FAULTS, Fault, FaultyProxy, faulty_proxy
from tests.fixtures.published_index import publish_index
from tests.fixtures.reported_run import ReportedRun
from tests.fixtures.servers import AT_ONCE, mlflow_server, new_database
from tests.fixtures.tally import POINTS, Tally
from tests.fixtures.tortured import WHOLE


@dataclass
class Server:
    """A real MLflow server, the proxy before it, and what it holds after an undisturbed shipping."""

    address: str
    proxy: FaultyProxy
    run: Run
    expected: dict
    requests: int

    def holds(self, reported: ReportedRun) -> dict:
        """What it holds of a run, asked without the proxy."""
        reported.uri = self.address
        return reported.seen()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("mlflow")
    words = ["server", "--backend-store-uri", new_database(folder)]
    words += ["--artifacts-destination", str(folder / "artifacts")]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in AT_ONCE.items():
            patch.setenv(name, value)
        with mlflow_server(words, folder) as address, faulty_proxy(address) as proxy:
            first = ReportedRun(folder / "first", proxy.url, "first")  # which makes the experiment
            first.report_all()
            assert tracking.ship(first.store, first.run.id, proxy.url)
            proxy.reset(lambda number, method, path: "none")
            reported = ReportedRun(folder / "expected", proxy.url, "expected")
            reported.report_all()
            assert tracking.ship(reported.store, reported.run.id, proxy.url)
            made = Server(address, proxy, reported.run, {}, len(proxy.asked))
            made.expected = made.holds(reported)
            yield made


def _ship(reported: ReportedRun, uri: str) -> bool:
    """Ships as a run does: what fails is left to a later shipment."""
    try:
        tracking.ship(reported.store, reported.run.id, uri)
    except InputError:
        return False
    return True


@pytest.mark.parametrize(
    ("fault", "every"),
    [
        ("lost", 32),
        pytest.param("503", 32, marks=pytest.mark.torture),
        *(pytest.param(fault, 1 if WHOLE else 8, marks=pytest.mark.torture) for fault in FAULTS),
    ],
)
def test_a_request_that_fails_once_is_made_up_for(
    server: Server, tmp_path: Path, fault: Fault, every: int, tally: Tally
) -> None:
    """Each request of a shipment in turn; where MLflow's client does not ask again, the next shipment does."""
    tally.add(POINTS, server.requests, of="requests to MLflow of a shipped run")
    for at in range(3, server.requests + 1, every):  # the third creates the run
        reported = ReportedRun(tmp_path / str(at), server.proxy.url, f"{fault}-{every}-{at}")
        reported.report_all()
        server.proxy.reset(lambda number, method, path, at=at: fault if number == at else "none")
        _ship(reported, server.proxy.url)
        assert _ship(reported, server.proxy.url)
        assert server.holds(reported) == server.expected, f"{fault} at {at}"
        tally.survived(server.proxy.faults, of=f"MLflow, {fault}")


def test_a_run_is_found_on_a_server_and_its_index_is_registered_there(server: Server, tmp_path: Path) -> None:
    found = tracking.find_run(server.address, "expected")
    assert found.run.config == server.run.config and found.steps.keys() == {*server.run.steps}
    assert MlflowClient(server.address).get_run(found.mlflow_id).info.status == "FINISHED"
    # A server takes no folder of its own machine for a version's source.
    store = LocalStore(tmp_path)
    index = publish_index(store, "of-index")
    for shipped in (True, False):
        assert tracking.ship(store, "of-index", server.address) == shipped
    assert tracking.register(server.address, index, "served", ["champion"]) == "1"
    assert tracking.registered_index(server.address, "models:/served@champion") == index.address


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a run be shipped at once, and again and again."""
    for name in ("FIRST_SECONDS", "SHIP_SECONDS"):
        monkeypatch.setattr(shipping, name, 0.02)


@pytest.mark.parametrize("after", [3, pytest.param(17, marks=pytest.mark.torture)])
def test_a_server_that_is_down_for_a_while_gets_all_of_it_once(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int, tally: Tally
) -> None:
    """It goes down in the middle of a run that is shipped while it goes on, and comes back before the end."""
    hurry(monkeypatch)
    reported, failed, proxy = (
        ReportedRun(tmp_path, server.proxy.url, f"down-{after}"),
        threading.Event(),
        server.proxy,
    )

    def down(number: int, method: str, path: str) -> Fault:
        if number > after + 20:
            failed.set()
        return "refused" if number > after else "none"

    proxy.reset(down)
    with tracking.ship_live(reported.store, reported.run.id, proxy.url):
        reported.report_all()
        assert failed.wait(120), "it was asked again and again"
        faults = proxy.faults
        proxy.reset(lambda number, method, path: "none")
    assert _ship(reported, proxy.url) and server.holds(reported) == server.expected
    tally.survived(faults, of="MLflow, down for a while")


@pytest.mark.parametrize(
    ("answers", "of"),
    [("held", "run"), ("held", "step"), pytest.param("slow", "step", marks=pytest.mark.torture)],
)
def test_a_step_does_not_wait_for_a_server_that_does_not_answer_or_takes_its_time(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: Fault, of: str, tally: Tally
) -> None:
    """A run's driver and a step's pod come to their end while not one answer was given; with 5 s for each answer, after a few
    of them. A later shipment does the rest."""
    hurry(monkeypatch)
    proxy, path = server.proxy, "camvr/round-2/train"
    reported = ReportedRun(tmp_path, proxy.url, f"{answers}-{of}")
    proxy.reset(lambda number, method, path: answers)
    live = partial(tracking.ship_live, reported.store, reported.run.id)
    if of == "step":
        live = partial(tracking.ship_step_live, reported.store, reported.run.id, path)
    waited_for = threading.Timer(15, proxy.released.set)  # what waits for answers gets them, and is seen
    if answers == "held":
        monkeypatch.setattr(shipping, "END_SECONDS", 0.1)
        waited_for.start()
    with live(proxy.url):
        reported.report_all()
    answered, faults = proxy.answered, proxy.faults
    assert answered < server.requests / 4 if answers == "slow" else answered == 0, "the block has ended"
    proxy.reset(lambda number, method, path: "none")
    proxy.released.set()
    waited_for.cancel()
    for thread in threading.enumerate():
        if thread.name == "shipping":
            thread.join()
    assert _ship(reported, proxy.url) and server.holds(reported) == server.expected
    tally.survived(faults, of=f"MLflow, {'no answer' if answers == 'held' else 'slow'}")


def test_after_a_run_without_mlflow_the_command_that_it_names_ships_it(
    server: Server, tmp_path: Path, tally: Tally
) -> None:
    """Down during the whole run: nothing is lost, and the line says what to do."""
    from pipelines.runs.local import ship_or_say

    reported = ReportedRun(tmp_path, server.proxy.url, "never")
    reported.report_all()
    server.proxy.reset(lambda number, method, path: "refused")
    line = ship_or_say(reported.store, reported.run, server.proxy.url)
    assert line is not None
    words = shlex.split(line.partition("Later: ")[2])
    assert words[:2] == ["multiview", "sync"]
    server.proxy.reset(lambda number, method, path: "none")
    from typer.testing import CliRunner

    from multiview.cli.app import app

    for shipped in ("1 run", "0 runs"):
        done = CliRunner().invoke(app, words[1:])
        assert done.exit_code == 0 and f"{shipped} brought up to date" in done.output, done.output
        assert server.holds(reported) == server.expected
    tally.survived(of="MLflow, down during the whole run")
