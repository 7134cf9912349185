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


def test_work_of_others_is_seen() -> None:
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


def test_own_work_is_not_that_of_others() -> None:
    ticks = [(100, 1000), (180, 1200)]
    own = iter([10.0, 40.0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "_processor_times", lambda: ticks.pop(0))
        patch.setattr(machine, "_own_ticks", lambda: next(own))
        assert Others().share() == 0.25


def test_a_machine_that_is_quiet_is_not_waited_for(monkeypatch) -> None:
    monkeypatch.setattr(machine, "busy_share", lambda seconds: 0.05)
    assert wait_until_quiet(3600) == 0.05


def test_the_machine_is_named() -> None:
    words = machine.machine()
    assert "processors" in words and "GiB" in words and "torch" in words
