"""A process that prepares batches for a step dies: the step ends, and the same command again makes what it would have made."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from tests.fixtures import injection
from tests.fixtures.injection import Call, Fault
from tests.fixtures.inprocess import run_plan
from tests.fixtures.tally import SURVIVED, TRIED, Tally
from tests.fixtures.tortured import Tortured, needs_seccomp
from tests.fixtures.tortured_plans import training_plan

pytestmark = [needs_seccomp, pytest.mark.torture]


@pytest.fixture(scope="module")
def tortured(tmp_path_factory: pytest.TempPathFactory) -> Tortured:
    folder = tmp_path_factory.mktemp("workers")
    settings = {"train": {"rounds": 1, "workers": 1}, "encode": {"workers": 1}}
    return Tortured.make(folder, training_plan(folder, settings), by_step=False)


@pytest.mark.parametrize("writes", ["checkpoint", "embeddings"])
def test_the_same_command_again_ends_with_the_very_same_artifacts(
    tortured: Tortured, writes: str, tally: Tally
) -> None:
    killed: list[int] = []

    def kill_worker(number: int, call: Call) -> Fault:
        if not killed and call.path.startswith(f"{writes}/"):
            killed.extend(_workers())
            for worker in killed:
                os.kill(worker, signal.SIGKILL)
        return "none"

    tortured.reset(0)
    root = tortured.store.root
    hit = injection.run(run_plan, tortured.plan, tortured.store, watched=root, decide=kill_worker)
    assert killed and hit.status == 1 and "DataLoader worker" in hit.error, hit.error
    rerun = injection.run(run_plan, tortured.plan, tortured.store, watched=root)
    assert rerun.status == 0, rerun.error
    assert tortured.difference(0, f"after {writes}") is None
    tally.add(TRIED, of="a process that prepares batches killed")
    tally.add(SURVIVED, of="a process that prepares batches killed")


def _workers() -> list[int]:
    """The children of the processes that `injection` runs."""
    return [
        worker.pid
        for server in psutil.Process().children()
        if any("forkserver" in word for word in server.cmdline())
        for fork in server.children()
        for worker in fork.children()
    ]
