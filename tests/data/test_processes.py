"""Further processes of a step: how many, that they end, and the collector of cycles."""

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from multiview.data.processes import MOST_PROCESSES, further_processes, rare_collections

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are for Linux")


def test_one_processor_needs_no_further_process(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with further_processes() as pool:
        assert pool is None


def test_there_are_as_many_as_processors_up_to_a_bound(monkeypatch):
    monkeypatch.setattr("multiview.data.processes.processors", lambda: 3 * MOST_PROCESSES)
    before = set(_children())
    with further_processes() as pool:
        assert pool is not None
        assert {pool.submit(os.getppid).result() for _ in range(9)} == {os.getpid()}
        assert pool.submit(os.getpid).result() != os.getpid()
        assert len(set(_children()) - before) == MOST_PROCESSES
    assert set(_children()) <= before


STARTER = """
import os, sys, time
import multiview.data.processes as processes
processes.processors = lambda: 2
with processes.further_processes() as pool:
    print(pool.submit(os.getpid).result(), flush=True)
    time.sleep(600)
"""


def test_they_end_with_a_starter_that_is_killed():
    with subprocess.Popen([sys.executable, "-c", STARTER], stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout
        worker = int(starter.stdout.readline())
        starter.send_signal(signal.SIGKILL)
        starter.wait()
        deadline = time.monotonic() + 30
        while _runs(worker) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not _runs(worker)


def test_the_collectors_thresholds_come_back():
    before = gc.get_threshold()
    with pytest.raises(ZeroDivisionError), rare_collections():
        assert gc.get_threshold()[0] > before[0] and gc.isenabled()
        raise ZeroDivisionError
    assert gc.get_threshold() == before


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


def _children() -> list[str]:
    return Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
