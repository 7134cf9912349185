"""Checkpoints: the newest whole one is found, older ones go, and a resumed log covers the whole training."""

import errno
import itertools
from pathlib import Path

import pytest

from multiview.artifacts.attempt import Attempt
from multiview.artifacts.record import read_record
from multiview.artifacts.store import LocalStore
from multiview.errors import InputError
from multiview.steps import checkpoints as module
from multiview.steps.checkpoints import StoredCheckpoints
from multiview.steps.events import EventLog, read_events
from tests.fixtures.damages import flip, truncate


def checkpoint(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "weights").write_text(text)
    return folder


def test_checkpoints_are_found_newest_first_and_older_ones_go(tmp_path):
    store = LocalStore(tmp_path / "store")
    checkpoints = StoredCheckpoints(store, "key")
    assert checkpoints.latest() is None
    for step in (5, 10, 15):
        checkpoints.publish(step, checkpoint(tmp_path / f"trainer-{step}", f"after {step}"))
    latest = checkpoints.latest()
    assert latest is not None
    assert latest.name == "checkpoint-15" and (latest / "weights").read_text() == "after 15"
    assert store.folders("checkpoint") == ["key-00000010", "key-00000015"]
    StoredCheckpoints(store, "key2").publish(5, checkpoint(tmp_path / "other", "other"))
    checkpoints.clear()
    assert checkpoints.latest() is None
    assert store.folders("checkpoint") == ["key2-00000005"]


def test_clearing_checkpoints_leaves_the_other_trainers_attempt_alone(tmp_path):
    store = LocalStore(tmp_path / "store")
    checkpoints = StoredCheckpoints(store, "key")
    checkpoints.publish(5, checkpoint(tmp_path / "trainer", "after 5"))
    other = Attempt(store, "checkpoint", "key-00000005")
    (other.path / "weights").write_text("half")
    checkpoints.clear()
    assert (other.path / "weights").exists()
    assert checkpoints.latest() is None


def test_a_resumed_log_covers_the_whole_training(tmp_path):
    store = LocalStore(tmp_path / "store")
    first, second = EventLog(store, "model/key/attempts/a"), EventLog(store, "model/key/attempts/b")
    first.metric("loss", 2.0, 1)
    StoredCheckpoints(store, "key", first).publish(1, checkpoint(tmp_path / "trainer", "after 1"))
    first.metric("loss", 1.5, 2)  # after the checkpoint: lost with the kill
    second.warning("begun")
    assert StoredCheckpoints(store, "key", second).latest()
    second.metric("loss", 1.5, 2)
    values = [getattr(event, "value", None) for event in read_events(store, "model/key/attempts/b")]
    assert values == [2.0, None, 1.5]


def test_the_latest_checkpoint_is_a_copy_that_may_be_changed(tmp_path):
    store = LocalStore(tmp_path / "store")
    StoredCheckpoints(store, "key").publish(5, checkpoint(tmp_path / "trainer", "after 5"))
    latest = StoredCheckpoints(store, "key").latest()
    assert latest is not None
    (latest / "weights").write_text("changed")
    other = StoredCheckpoints(store, "key").latest()
    assert other is not None and (other / "weights").read_text() == "after 5"


@pytest.mark.parametrize(
    ("file", "harm"),
    [*itertools.product(("weights", "artifact.json"), (flip, truncate)), ("weights", Path.unlink)],
)
def test_a_damaged_checkpoint_is_passed_over_and_made_again(tmp_path, harm, file):
    store = LocalStore(tmp_path / "store")
    log = EventLog(store, "model/key/attempts/a")
    checkpoints = StoredCheckpoints(store, "key", log)
    for step in (5, 10):
        checkpoints.publish(step, checkpoint(tmp_path / f"trainer-{step}", f"after {step}"))
    record = read_record(store, "checkpoint", "key-00000010")
    assert record is not None
    folder = record.folder if file == "artifact.json" else record.data
    harm(store.root / folder / file)
    latest = checkpoints.latest()
    assert latest is not None and (latest / "weights").read_text() == "after 5"
    assert "checkpoint/key-00000010" in log.text() and file in log.text()
    checkpoints.publish(10, checkpoint(tmp_path / "again", "after 10"))
    latest = checkpoints.latest()
    assert latest is not None and (latest / "weights").read_text() == "after 10"


@pytest.mark.parametrize(
    "fault", [InputError("gs://b: the server cannot be reached"), OSError(errno.ENOSPC, "no space")]
)
@pytest.mark.parametrize("dropped", [False, True])
def test_a_checkpoint_that_cannot_be_copied_now_is_neither_lost_nor_passed_over(
    tmp_path, monkeypatch, fault, dropped
):
    """As with a bucket that is silent or a full disk; unless the other trainer has dropped it meanwhile."""
    store = LocalStore(tmp_path / "store")
    checkpoints = StoredCheckpoints(store, "key")
    for step in (5, 10):
        checkpoints.publish(step, checkpoint(tmp_path / f"trainer-{step}", f"after {step}"))
    stage = module.stage

    def fail_once(*words):
        monkeypatch.setattr(module, "stage", stage)
        if dropped:
            store.remove("checkpoint/key-00000010/artifact.json")
        raise fault

    monkeypatch.setattr(module, "stage", fail_once)
    if not dropped:
        with pytest.raises(type(fault)):
            checkpoints.latest()
    latest = checkpoints.latest()
    assert latest is not None and latest.name == f"checkpoint-{5 if dropped else 10}"


def test_checkpoints_that_another_trainer_publishes_meanwhile_are_found(tmp_path, monkeypatch):
    store = LocalStore(tmp_path / "store")
    checkpoints, stage = StoredCheckpoints(store, "key"), module.stage
    for step in (10, 20):
        checkpoints.publish(step, checkpoint(tmp_path / f"trainer-{step}", f"after {step}"))

    def copied_slowly(*given):
        monkeypatch.setattr(module, "stage", stage)
        for step in (30, 40):
            checkpoints.publish(step, checkpoint(tmp_path / f"trainer-{step}", f"after {step}"))
        return stage(*given)

    monkeypatch.setattr(module, "stage", copied_slowly)
    latest = checkpoints.latest()
    assert latest is not None and latest.name == "checkpoint-40"
