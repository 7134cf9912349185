"""Machines that lose power at any change of a file in a local store: what is published is whole, and stays.

That pipelines and shipments to MLflow go on afterwards is shown beside their other faults.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from multiview.artifacts.attempt import Attempt
from multiview.artifacts.record import read_record
from multiview.artifacts.staging import verify
from multiview.artifacts.store import LocalStore
from tests.fixtures import injection
from tests.fixtures.injection import At
from tests.fixtures.power import LOSSES, Disk, Loss
from tests.fixtures.tally import POINTS, SURVIVED, TRIED, Tally
from tests.fixtures.tortured import Share, each_share, needs_seccomp

NAMED = "publication, power lost"
KEYS = ("one", "two")
OLD, NEW = b"old" * 3000, b"new" * 2000
FILE = "runs/run.json"


def _publish(root: Path, done: Path) -> None:
    """Publishes two artifacts and replaces a file; what is done is noted outside of the store."""
    store = LocalStore(root)
    for key in KEYS:
        attempt = Attempt(store, "model", key)
        (attempt.path / "part").mkdir()
        (attempt.path / "part" / "weights").write_bytes(bytes(range(256)) * 40)
        attempt.publish(step="train", step_version=1, config={}, inputs={})
        (done / key).touch()
    store.replace(FILE, NEW)


def _flaw(root: Path, done: Path) -> str | None:
    """What is not whole in a store, or was published and is gone."""
    store = LocalStore(root)
    for key in KEYS:
        record = read_record(store, "model", key)
        if record:
            verify(store, record)
        elif (done / key).exists():
            return f"{key} is gone"
    return None if store.read(FILE) in (OLD, NEW) else f"{FILE} is neither the old one nor the new one"


@needs_seccomp
@each_share
def test_a_published_artifact_is_whole_and_stays(tmp_path: Path, share: Share, tally: Tally) -> None:
    def folders(name: str) -> tuple[Path, Path]:
        root, done = tmp_path / name / "store", tmp_path / name / "done"
        for folder in (root, done):
            folder.mkdir(parents=True)
        LocalStore(root).replace(FILE, OLD)
        return root, done

    root, done = folders("undisturbed")
    points = range(1, len(injection.run(_publish, root, done, watched=root).calls) + 1)
    chosen: list[tuple[int, Loss]] = [(point, loss) for point in points for loss in LOSSES]
    if share == "sample":
        chosen = random.Random(19).sample(chosen, 24)
    else:
        tally.add(POINTS, len(points), of=NAMED)
    for point, loss in chosen:
        root, done = folders(f"{point}-{loss}")
        disk = Disk(root)
        outcome = injection.run(
            _publish, root, done, watched=root, decide=At(point, "power"), synced=disk.sync
        )
        if not outcome.killed:  # fewer files were noted as verified, which goes by the clock
            continue
        disk.cut(random.Random(point), loss)
        tally.add(TRIED, of=NAMED)
        assert _flaw(root, done) is None, (loss, outcome.calls[-1])
        _publish(root, done)
        assert _flaw(root, done) is None, (loss, outcome.calls[-1])
        tally.add(SURVIVED, of=NAMED)


def test_a_disk_keeps_what_was_synced_and_loses_the_rest(tmp_path: Path) -> None:
    """A rename before its file is synced leaves, after one cut or another, nothing, zeros, torn pages and the whole."""
    found = set()
    for number in range(200):
        root = tmp_path / str(number)
        root.mkdir()
        (root / "kept").write_bytes(OLD)
        disk = Disk(root)
        (root / ".new").write_bytes(NEW)
        (root / ".new").replace(root / "new")
        (root / "kept").unlink()
        disk.cut(random.Random(number))
        new, kept = root / "new", root / "kept"
        assert not kept.exists() or kept.read_bytes() == OLD
        state = new.read_bytes() if new.exists() else None
        kinds = {None: "gone", b"": "empty", bytes(len(NEW)): "zeros", NEW: "whole"}
        found |= {kinds.get(state, "torn"), "kept" if kept.exists() else "removed"}
    assert found == {"gone", "empty", "zeros", "torn", "whole", "kept", "removed"}


@needs_seccomp
@pytest.mark.parametrize("unsynced", ["save", "_temporary"])
def test_a_store_that_does_not_sync_is_found_out(tmp_path: Path, unsynced: str) -> None:
    disk_loses = []
    for loss in LOSSES:
        root, done = tmp_path / loss / "store", tmp_path / loss / "done"
        for folder in (root, done):
            folder.mkdir(parents=True)
        LocalStore(root).replace(FILE, OLD)
        disk = Disk(root)
        assert injection.run(_unsynced, root, done, unsynced, watched=root, synced=disk.sync).status == 0
        disk.cut(random.Random(1), loss)
        try:
            disk_loses.append(_flaw(root, done))
        except Exception as error:
            disk_loses.append(str(error))
    assert any(disk_loses)


def _unsynced(root: Path, done: Path, method: str) -> None:
    def save(self: LocalStore, workspace: Path, path: str) -> None:
        pass

    def temporary(self: LocalStore, target: Path, data: bytes) -> Path:
        target.parent.mkdir(parents=True, exist_ok=True)
        new = target.with_name(f".{target.name}.new")
        new.write_bytes(data)
        return new

    setattr(LocalStore, method, {"save": save, "_temporary": temporary}[method])
    _publish(root, done)
