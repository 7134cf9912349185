"""Shipping while a run goes on."""

import time
from collections.abc import Callable

import pytest

from multiview import tracking
from multiview.tracking import shipping
from tests.fixtures.reported_run import ReportedRun


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_run_is_shipped_while_a_block_runs(tmp_path, uri, expected, monkeypatch):
    for name in ("FIRST_SECONDS", "SHIP_SECONDS"):
        monkeypatch.setattr(shipping, name, 0.05)
    reported = ReportedRun(tmp_path, uri, "block")
    with tracking.ship_live(reported.store, reported.run.id, uri):
        reported.events("split", "s")
        until(lambda: "split" in reported.seen())
        reported.events("camvr/round-2/train", "t", status="running")
        until(lambda: "camvr/round-2/train" in reported.seen())
        until(lambda: reported.seen()["camvr"][0] == "RUNNING")
    reported.events("camvr/round-2/evaluate", "e")
    time.sleep(0.5)
    assert set(reported.seen()) == {"", "split", "camvr", "camvr/round-2/train"}, "the block has ended"


def test_a_step_alone_is_shipped_while_a_block_runs_and_at_its_end(tmp_path, uri):
    reported = ReportedRun(tmp_path, uri, "pod")
    reported.events("split", "s")
    path = "camvr/round-2/train"
    with (
        pytest.raises(RuntimeError, match="the step's own"),
        tracking.ship_step_live(reported.store, reported.run.id, path, uri),
    ):
        reported.events(path, "t", status="failed")
        raise RuntimeError("the step's own")
    seen = reported.seen()
    assert set(seen) == {"", "camvr", path} and seen[path][0] == seen["camvr"][0] == "FAILED"
