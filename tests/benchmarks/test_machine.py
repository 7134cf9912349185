"""A quiet machine: what others use of its processors."""

import multiprocessing
import time

import pytest

from benchmarks import machine
from benchmarks.machine import Others, busy_share, wait_until_quiet


def _work() -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        pass


def test_work_of_others_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    other = multiprocessing.get_context("spawn").Process(target=_work)
    other.start()
    try:
        while busy_share(0.3) < 0.2:
            assert other.is_alive()
        begun = time.monotonic()
        assert 0 < wait_until_quiet(0) <= 1 and time.monotonic() - begun < 30
    finally:
        other.kill()
        other.join()
    monkeypatch.setattr(machine, "busy_share", lambda seconds: 0.05)
    assert wait_until_quiet(3600) == 0.05, "a machine that is quiet is not waited for"


def test_own_work_is_not_that_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks, own = iter([(100, 1000), (180, 1200)]), iter([10.0, 40.0])
    monkeypatch.setattr(machine, "_processor_times", lambda: next(ticks))
    monkeypatch.setattr(machine, "_own_ticks", lambda: next(own))
    assert Others().share() == 0.25
