"""A shipment to MLflow's SQLite file that dies, or whose disk is full, at any change of a file: the next one makes up for it."""

from __future__ import annotations

import math
import random
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from multiview import tracking
from tests.fixtures import injection
from tests.fixtures.champions import artifact
from tests.fixtures.injection import At, Call, Fault, disturbed, unnoticed
from tests.fixtures.power import Disk
from tests.fixtures.reported_run import ReportedRun
from tests.fixtures.servers import new_database
from tests.fixtures.tally import POINTS, Tally
from tests.fixtures.tortured import SEED, WHOLE, WORDS, Share, each_fault, each_share, needs_seccomp

pytestmark = needs_seccomp
SECONDS = 20
"""Seconds for the points of a fault."""


@dataclass
class Shipped:
    """A reported run beside an MLflow without it, the calls of its shipment, and what MLflow then holds."""

    before: Path
    calls: list[Call]
    expected: list

    def again(self, folder: Path) -> ReportedRun:
        """The same run and the same MLflow in another folder."""
        shutil.copytree(self.before, folder)
        return ReportedRun(folder / "store", f"sqlite:///{folder}/mlflow.db")


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Shipped:
    folder = tmp_path_factory.mktemp("shipped")
    reported = ReportedRun(folder / "before" / "store", new_database(folder / "before"))
    reported.report_all()
    artifact(reported.store, "evaluation", "camvr-round-2-evaluate")
    made = Shipped(folder / "before", [], [])
    undisturbed = made.again(folder / "undisturbed")
    outcome = injection.run(_ship, undisturbed, watched=folder / "undisturbed")
    assert outcome.status == 0, outcome.error
    made.calls, made.expected = outcome.calls, _held(undisturbed)
    return made


def _ship(reported: ReportedRun) -> None:
    tracking.ship(reported.store, reported.run.id, reported.uri)


def _held(reported: ReportedRun) -> list:
    """What MLflow holds, with the bytes of its files."""
    files = (path for path in (reported.store.root / "mlflow").rglob("*") if path.is_file())
    return [reported.seen(), sorted(path.read_bytes() for path in files)]


@each_fault
@each_share
def test_the_next_shipment_brings_what_is_missing_and_nothing_twice(
    shipped: Shipped, tmp_path: Path, fault: Fault, share: Share, tally: Tally
) -> None:
    points = [number for number, call in enumerate(shipped.calls, 1) if disturbed(call, fault)]
    random.Random(SEED).shuffle(points)
    name, ends = f"MLflow's database, {WORDS[fault]}", math.inf if WHOLE else time.monotonic() + SECONDS
    if share == "all":
        tally.add(POINTS, len(points), of=name)
    for tried, point in enumerate(points[:1] if share == "sample" else points):
        if time.monotonic() > ends and tried:
            break
        reported = shipped.again(folder := tmp_path / str(point))
        disk = Disk(folder) if fault == "power" else None
        synced = disk.sync if disk else unnoticed
        outcome = injection.run(_ship, reported, watched=folder, decide=At(point, fault), synced=synced)
        where = f"{fault} at {point}, {shipped.calls[point - 1]}: {outcome.error}"
        # The store's own files may meet the full disk, too.
        told = "full disk" in outcome.error or "No space left" in outcome.error
        assert told if fault == "full" else outcome.killed, where
        if disk:
            where = f"{disk.cut(random.Random(point))} lost, {where}"
        _ship(reported)
        assert _held(reported) == shipped.expected, where
        tally.survived(of=name)
