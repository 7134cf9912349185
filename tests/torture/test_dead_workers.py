"""A process that prepares batches for a step dies: the step ends, and the same command again makes what it would have made."""

from __future__ import annotations

import os
import signal
import threading
from unittest.mock import patch

import psutil
import pytest

from multiview.artifacts.store import Store
from multiview.model import devices
from multiview.plans.plan import Plan
from tests.fixtures import injection
from tests.fixtures.injection import Call, Fault
from tests.fixtures.inprocess import run_plan
from tests.fixtures.tally import Tally
from tests.fixtures.tortured import Tortured, needs_seccomp
from tests.fixtures.tortured_plans import training_plan

pytestmark = [needs_seccomp, pytest.mark.torture]


def run_ahead(plan: Plan, store: Store) -> None:
    """Runs the plan with a process that tokenises ahead, as beside a GPU."""
    with patch.object(devices, "CPU_WORKERS", 1):
        run_plan(plan, store)


@pytest.fixture(scope="module")
def tortured(tmp_path_factory: pytest.TempPathFactory) -> Tortured:
    folder = tmp_path_factory.mktemp("workers")
    settings = {"train": {"rounds": 1}}
    return Tortured.make(folder, training_plan(folder, settings), by_step=False)


@pytest.mark.parametrize("writes", ["checkpoint", "embeddings"])
def test_the_same_command_again_ends_with_the_very_same_artifacts(
    tortured: Tortured, writes: str, tally: Tally
) -> None:
    """One is killed as soon as there is one after a first write of this kind."""
    begun, ended, killed = threading.Event(), threading.Event(), list[int]()

    def watch(number: int, call: Call) -> Fault:
        if call.path.startswith(f"{writes}/"):
            begun.set()
        return "none"

    def kill_one() -> None:
        begun.wait()
        while not killed and not ended.wait(0.001):
            for worker in _workers()[:1]:
                os.kill(worker, signal.SIGKILL)
                killed.append(worker)

    tortured.reset(0)
    root = tortured.store.root
    killer = threading.Thread(target=kill_one)
    killer.start()
    hit = injection.run(run_ahead, tortured.plan, tortured.store, watched=root, decide=watch)
    begun.set()
    ended.set()
    killer.join()
    assert killed
    # A worker that had handed over its last batch is not missed.
    assert hit.status == 1 or tortured.difference(0, f"during {writes}") is None, hit
    rerun = injection.run(run_ahead, tortured.plan, tortured.store, watched=root)
    assert rerun.status == 0, rerun.error
    assert tortured.difference(0, f"after {writes}") is None
    tally.survived(of="a process that prepares batches killed")


def _workers() -> list[int]:
    """Those of the process that `injection` runs: a server forks it, and a server of its own forks them."""
    found = psutil.Process().children()
    for _ in range(3):
        servers = [each for each in found if any("forkserver" in word for word in each.cmdline())]
        found = [child for server in servers for child in server.children()]
    return [worker.pid for worker in found]
