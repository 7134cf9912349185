"""Machines that lose power at any change of a file: what is published is whole, and stays; what was to go is gone or whole.

That pipelines and shipments to MLflow go on afterwards is shown beside their other faults.
"""

from __future__ import annotations

import os
import random
import runpy
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from multiview import names
from multiview.artifacts.attempt import Attempt
from multiview.artifacts.champions import crown
from multiview.artifacts.record import read_collected, read_record, read_whole
from multiview.artifacts.staging import verify
from multiview.artifacts.store import LocalStore
from multiview.export.files import new_folder
from multiview.lineage import garbage
from multiview.serving import question_log
from multiview.serving.follow import Generation
from multiview.serving.question_log import QuestionLog
from tests.fixtures import injection
from tests.fixtures.champions import artifact, champion
from tests.fixtures.injection import At
from tests.fixtures.power import LOSSES, Disk, Loss
from tests.fixtures.project import ROOT
from tests.fixtures.tally import POINTS, Tally
from tests.fixtures.tortured import Share, each_share, needs_seccomp

KEYS = ("one", "two")
OLD, NEW = b"old" * 3000, b"new" * 2000
FILE = "runs/run.json"
LOG, QUESTIONS = "questions.jsonl", 25
LOGGED = runpy.run_path(str(ROOT / "docs" / "examples" / "question_log.py"))["logged"]
Flaw = str | None
SAMPLE = 5
"""Points and losses of each operation that `make test` tries."""


@dataclass(frozen=True)
class Operation:
    """What is done to a folder on a disk; what is done already is noted in another folder, elsewhere."""

    name: str
    prepare: Callable[[Path], object]
    work: Callable[[Path, Path], object]
    flaw: Callable[[Path, Path], Flaw]
    """What is not whole, or was done and is gone."""


def _publish(root: Path, done: Path) -> None:
    """Publishes two artifacts and replaces a file."""
    store = LocalStore(root / "store")
    for key in KEYS:
        attempt = Attempt(store, "model", key)
        (attempt.path / "part").mkdir()
        (attempt.path / "part" / "weights").write_bytes(bytes(range(256)) * 40)
        attempt.publish(step="train", step_version=1, config={}, inputs={})
        (done / key).touch()
    store.replace(FILE, NEW)
    (done / "replaced").touch()


def _unpublished(root: Path, done: Path) -> Flaw:
    store = LocalStore(root / "store")
    for key in KEYS:
        record = read_record(store, "model", key)
        if record:
            verify(store, record)
        elif (done / key).exists():
            return f"{key} is gone"
    before = [] if (done / "replaced").exists() else [OLD, None]
    return None if store.read(FILE) in (NEW, *before) else f"{FILE} is neither the old one nor the new one"


def _garbage(root: Path) -> None:
    """An index of a champion, one that nothing refers to, one to which a run refers soon, and what a killed step left."""
    store = LocalStore(root / "store")
    crown(store, champion(store, 1))
    for key in ("unused", "used"):
        artifact(store, names.INDEX, key)
    (Attempt(store, names.EMBEDDINGS, "half").path / "views").write_bytes(OLD)


def _collect(root: Path, done: Path) -> None:
    """Collects a month later; a run refers to an index once all is put aside."""
    store, then = LocalStore(root / "store"), time.time() - 30 * garbage.DAY
    for path in root.rglob("*"):
        os.utime(path, (then, then))
    keep = garbage.referenced(store, 1.0, 1)
    pieces = garbage.collectable(store, keep, 1.0)
    list(garbage.remove_all(store, pieces, lambda: {*keep, (names.INDEX, "used")}))
    (done / "collected").touch()


def _uncollected(root: Path, done: Path) -> Flaw:
    store = LocalStore(root / "store")
    for kind, key in (
        (names.INDEX, "of-1"),
        (names.MODEL, "of-1"),
        (names.INDEX, "used"),
        (names.INDEX, "unused"),
    ):
        if record := read_whole(store, kind, key):
            verify(store, record)
        elif key != "unused" or not read_collected(store, kind, key):
            return f"{kind}/{key} is gone"
    if (done / "collected").exists():
        left = (
            read_whole(store, names.INDEX, "unused"),
            *store.files("embeddings"),
            *store.files("collections"),
        )
        return f"not collected: {left}" if any(left) else None
    return None


def _answer(root: Path, done: Path) -> None:
    """A server begins to log questions in files of a few lines; notes that, and how many are in the earlier files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(question_log, "FILE_BYTES", 1000)
        log, server = QuestionLog(root / LOG), len(list(done.iterdir()))
    generation = SimpleNamespace(retriever=SimpleNamespace(address="index"), number=1)
    for number in range(QUESTIONS):
        earlier = sum(file.read_bytes().count(b"\n") for file in root.glob(f"{LOG}.*"))
        (done / str(server)).write_text(str(earlier))
        log.write(cast(Generation, generation), None, [f"{server} {number}?"], [[]])


def _unlogged(root: Path, done: Path) -> Flaw:
    """By the reader of docs/examples, once there is a log: what was asked is read, and nothing else."""
    if not (root / LOG).exists():
        return None
    asked = {each["question"] for each in LOGGED(root / LOG)}
    earlier = [int(file.read_text()) for file in sorted(done.iterdir())]
    if not earlier:  # the power went before the first server had opened its log
        return None
    known = [{f"{server} {number}?" for number in range(QUESTIONS)} for server in range(len(earlier))]
    lost = known[-1] - asked if len(known) > 1 else range(earlier[0] - len(asked))
    return f"{lost} is lost" if lost else f"read {asked}" if asked - set().union(*known) else None


def _export(root: Path, done: Path) -> None:
    if not (root / "out").exists():
        with new_folder(root / "out") as part:
            (part / "views.parquet").write_bytes(OLD)
            (part / "export.json").write_bytes(NEW)
    (done / "exported").touch()
    (root / "later").touch()


def _unexported(root: Path, done: Path) -> Flaw:
    if not (root / "out").exists():
        return "the export is gone" if (done / "exported").exists() else None
    whole = {"views.parquet": OLD, "export.json": NEW}
    return None if {path.name: path.read_bytes() for path in (root / "out").iterdir()} == whole else "torn"


OPERATIONS = (
    Operation(
        "publication", lambda root: LocalStore(root / "store").replace(FILE, OLD), _publish, _unpublished
    ),
    Operation("publication in a new store", lambda root: None, _publish, _unpublished),
    Operation("gc --delete", _garbage, _collect, _uncollected),
    Operation("export to a folder", lambda root: None, _export, _unexported),
    Operation("question log", lambda root: None, _answer, _unlogged),
)


def _folders(folder: Path, operation: Operation) -> tuple[Path, Path]:
    root, done = folder / "disk", folder / "done"
    for each in (root, done):
        each.mkdir(parents=True)
    operation.prepare(root)
    return root, done


@needs_seccomp
@each_share
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_what_was_done_stays_and_the_rest_is_done_again(
    tmp_path: Path, operation: Operation, share: Share, tally: Tally
) -> None:
    root, done = _folders(tmp_path / "undisturbed", operation)
    points = range(1, len(injection.run(operation.work, root, done, watched=root).calls) + 1)
    assert points and operation.flaw(root, done) is None
    named = f"{operation.name}, power lost"
    chosen: list[tuple[int, Loss]] = [(point, loss) for point in points for loss in LOSSES]
    if share == "sample":
        chosen = random.Random(19).sample(chosen, SAMPLE)
    else:
        tally.add(POINTS, len(points), of=named)
    tried = 0
    for point, loss in chosen:
        root, done = _folders(tmp_path / f"{point}-{loss}", operation)
        disk = Disk(root)
        decide = At(point, "power")
        outcome = injection.run(operation.work, root, done, watched=root, decide=decide, synced=disk.sync)
        if not outcome.killed:  # fewer files were noted as verified, which goes by the clock
            continue
        disk.cut(random.Random(point), loss)
        tried += 1
        assert operation.flaw(root, done) is None, (loss, outcome.calls[-1])
        operation.work(root, done)
        assert operation.flaw(root, done) is None, (loss, outcome.calls[-1])
        tally.survived(of=named)
    assert tried > len(chosen) // 2


@needs_seccomp
@pytest.mark.parametrize("unsynced", ["save", "_temporary"])
def test_a_store_that_does_not_sync_is_found_out(tmp_path: Path, unsynced: str) -> None:
    disk_loses = []
    for loss in LOSSES:
        root, done = _folders(tmp_path / loss, OPERATIONS[0])
        disk = Disk(root)
        assert injection.run(_unsynced, root, done, unsynced, watched=root, synced=disk.sync).status == 0
        disk.cut(random.Random(1), loss)
        try:
            disk_loses.append(_unpublished(root, done))
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
