"""A record is created exclusively and whole, whoever races and whoever is killed."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from multiview.artifacts.attempt import Attempt
from multiview.artifacts.record import Record, digest_of, load_record, read_record, split_address
from multiview.artifacts.staging import stage, verify
from multiview.artifacts.store import LocalStore, open_store
from multiview.errors import InputError
from multiview.steps.checkpoints import StoredCheckpoints
from multiview.steps.events import EventLog, read_events

DESCRIPTION = {"step": "split", "step_version": 1, "config": {}, "inputs": {}}


def publish(store: LocalStore, key: str, text: str, **more) -> tuple[Record, bool]:
    attempt = Attempt(store, "passages", key)
    (attempt.path / "a.txt").write_text(text)
    (attempt.path / "deep").mkdir()
    (attempt.path / "deep" / "b.txt").write_text(text * 2)
    return attempt.publish(**DESCRIPTION, **more)


def race(root: str, barrier, wins, me: int, rounds: int) -> None:
    store = LocalStore(Path(root))
    for number in range(rounds):
        barrier.wait()
        if store.create(f"race/{number}/artifact.json", bytes([me]) * 100_000):
            wins.put((number, me))


def test_a_hundred_two_process_races_have_one_winner_each(tmp_path):
    context = multiprocessing.get_context("spawn")
    barrier, wins = context.Barrier(2), context.Queue()
    rounds = 100
    racers = [context.Process(target=race, args=(str(tmp_path), barrier, wins, me, rounds)) for me in (1, 2)]
    for racer in racers:
        racer.start()
    won = sorted(wins.get(timeout=60) for _ in range(rounds))
    for racer in racers:
        racer.join(60)
        assert racer.exitcode == 0
    assert wins.empty()
    assert [number for number, _ in won] == list(range(rounds))
    for number, me in won:
        assert (tmp_path / f"race/{number}/artifact.json").read_bytes() == bytes([me]) * 100_000


KILLED_IN_MID_WRITE = """
import os, signal, sys
from pathlib import Path
from multiview.artifacts.store import LocalStore
real = os.fsync
def fsync(descriptor):
    print("written, not linked", flush=True)
    signal.pause()
os.fsync = fsync
LocalStore(Path(sys.argv[1])).create("passages/k/artifact.json", b"torn" * 1000)
"""


def test_a_kill_in_mid_write_blocks_nothing(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED_IN_MID_WRITE, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("written")
    process.kill()
    process.wait()
    store = LocalStore(tmp_path)
    assert read_record(store, "passages", "k") is None
    assert publish(store, "k", "whole")[1]
    assert read_record(store, "passages", "k") is not None


def test_of_two_attempts_the_first_wins_and_the_other_leaves_nothing(tmp_path):
    store = LocalStore(tmp_path)
    first, ours = publish(store, "k", "first")
    second, theirs = publish(store, "k", "second")
    assert ours and not theirs
    assert second == first
    assert store.folders("passages/k/attempts") == [first.attempt]


@pytest.mark.parametrize("point", ["save", "record"])
def test_a_crash_before_any_write_leaves_no_artifact_and_no_obstacle(tmp_path, point):
    store = LocalStore(tmp_path)

    def crash(at: str) -> None:
        if at == point:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        publish(store, "k", "text", crash=crash)
    assert read_record(store, "passages", "k") is None
    assert publish(store, "k", "text")[1]


def test_what_is_published_survives_a_failure_that_comes_after(tmp_path):
    """As where a step's second output cannot be written: the first one's data stay."""
    store = LocalStore(tmp_path)
    attempt = Attempt(store, "passages", "k")
    (attempt.path / "a.txt").write_text("text")
    record, _ = attempt.publish(**DESCRIPTION)
    attempt.abandon()
    verify(store, record)


def test_a_create_whose_answer_was_lost_is_not_taken_for_a_defeat(tmp_path, monkeypatch):
    """A network file system may repeat a link that had succeeded."""
    real = os.link

    def twice(source, target):
        real(source, target)
        real(source, target)

    store = LocalStore(tmp_path)
    monkeypatch.setattr(os, "link", twice)
    record, ours = publish(store, "k", "text")
    assert ours
    verify(store, record)


def test_a_record_of_a_later_version_is_not_called_damaged(tmp_path):
    store = LocalStore(tmp_path)
    store.create("passages/k/artifact.json", b'{"schema_version": 99, "news": true}')
    with pytest.raises(InputError, match="later version of multiview"):
        read_record(store, "passages", "k")
    store.create("passages/l/artifact.json", b'{"schema_version": 1}')
    with pytest.raises(InputError, match="is damaged: remove the folder"):
        read_record(store, "passages", "l")


def test_the_digest_is_over_paths_and_contents_alone(tmp_path):
    one, _ = publish(LocalStore(tmp_path / "one"), "k", "same")
    two, _ = publish(LocalStore(tmp_path / "two"), "other", "same")
    three, _ = publish(LocalStore(tmp_path / "two"), "third", "different")
    assert one.digest == two.digest == digest_of(reversed(one.files)) != three.digest
    assert [file.path for file in one.files] == ["a.txt", "deep/b.txt"]
    assert [file.bytes for file in one.files] == [4, 8]


def damage_missing(file: Path) -> None:
    file.unlink()


def damage_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def damage_altered(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[0] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (damage_missing, "is missing"),
        (damage_short, "has 7 bytes instead of 8"),
        (damage_altered, "was altered"),
    ],
)
def test_a_damaged_file_is_named_with_the_way_out(tmp_path, damage, says):
    store = LocalStore(tmp_path)
    record, _ = publish(store, "k", "text")
    damage(tmp_path / record.data / "deep/b.txt")
    with pytest.raises(InputError) as error:
        verify(store, record)
    line = str(error.value)
    assert says in line and "deep/b.txt" in line and f"remove the folder {tmp_path}/passages/k" in line
    assert "\n" not in line


def test_one_file_of_an_artifact_can_be_staged_alone(tmp_path):
    store = LocalStore(tmp_path)
    record, _ = publish(store, "k", "text")
    staged = stage(store, record, "a.txt")
    assert [path.name for path in staged.path.iterdir()] == ["a.txt"]
    assert (staged.path / "a.txt").read_text() == "text"
    assert staged.digest == record.file("a.txt").sha256
    with pytest.raises(InputError, match="has no file c.txt"):
        stage(store, record, "c.txt")


def test_addresses(tmp_path):
    record, _ = publish(LocalStore(tmp_path), "k", "text")
    assert split_address("gs://bucket/folder/model/abc") == ("gs://bucket/folder", "model", "abc")
    assert load_record(f"{tmp_path}/passages/k")[1] == record
    for address in (f"{tmp_path}/passages/none", "nonsense"):
        with pytest.raises(InputError):
            load_record(address)


def test_file_systems_that_cannot_create_exclusively_are_refused(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="cannot create files exclusively"):
        open_store("memory://store")

    def no_links(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(InputError, match="no hard links"):
        open_store(str(tmp_path)).check_writable()


def test_a_store_that_is_not_writable_is_an_input_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="not writable"):
        open_store(f"{tmp_path}/file/store").check_writable()


def checkpoint(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "weights").write_text(text)
    return folder


def test_checkpoints_are_found_newest_first_and_older_ones_go(tmp_path):
    store = LocalStore(tmp_path / "store")
    checkpoints = StoredCheckpoints(store, "key", tmp_path / "scratch")
    assert checkpoints.latest() is None
    for step in (5, 10, 15):
        checkpoints.publish(step, checkpoint(tmp_path / f"trainer-{step}", f"after {step}"))
    latest = checkpoints.latest()
    assert latest is not None
    assert latest.name == "checkpoint-15" and (latest / "weights").read_text() == "after 15"
    assert store.folders("checkpoint") == ["key-00000010", "key-00000015"]
    StoredCheckpoints(store, "key2", tmp_path).publish(5, checkpoint(tmp_path / "other", "other"))
    checkpoints.clear()
    assert checkpoints.latest() is None
    assert store.folders("checkpoint") == ["key2-00000005"]


def test_a_half_removed_checkpoint_is_passed_over(tmp_path):
    store = LocalStore(tmp_path / "store")
    checkpoints = StoredCheckpoints(store, "key", tmp_path / "scratch")
    for step in (5, 10):
        checkpoints.publish(step, checkpoint(tmp_path / f"trainer-{step}", f"after {step}"))
    record = read_record(store, "checkpoint", "key-00000010")
    assert record is not None
    store.remove(record.data)
    latest = checkpoints.latest()
    assert latest is not None and latest.name == "checkpoint-5"


def test_clearing_checkpoints_leaves_the_other_trainers_attempt_alone(tmp_path):
    store = LocalStore(tmp_path / "store")
    checkpoints = StoredCheckpoints(store, "key", tmp_path / "scratch")
    checkpoints.publish(5, checkpoint(tmp_path / "trainer", "after 5"))
    other = Attempt(store, "checkpoint", "key-00000005")
    (other.path / "weights").write_text("half")
    checkpoints.clear()
    assert (other.path / "weights").exists()
    assert checkpoints.latest() is None


def test_a_resumed_log_tells_the_whole_training(tmp_path):
    store = LocalStore(tmp_path / "store")
    first, second = EventLog(store, "model/key/attempts/a"), EventLog(store, "model/key/attempts/b")
    first.metric("loss", 2.0, 1)
    StoredCheckpoints(store, "key", tmp_path / "one", first).publish(
        1, checkpoint(tmp_path / "trainer", "after 1")
    )
    first.metric("loss", 1.5, 2)  # after the checkpoint: lost with the kill
    second.warning("begun")
    assert StoredCheckpoints(store, "key", tmp_path / "two", second).latest()
    second.metric("loss", 1.5, 2)
    told = [getattr(event, "value", None) for event in read_events(store, "model/key/attempts/b")]
    assert told == [2.0, None, 1.5]


ORPHAN = """
import os, sys, time
from multiview.steps.execution import watch_driver
watch_driver()
print("working", flush=True)
time.sleep(60)
"""

DRIVER = """
import os, subprocess, sys, time
from pipelines.runs.local import _driver_lock
with _driver_lock():
    step = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE, text=True)
    print(step.pid, step.stdout.readline(), flush=True)
    time.sleep(60)
"""


def test_a_step_whose_driver_is_killed_ends_by_itself():
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, ORPHAN], stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    step = int(driver.stdout.readline().split()[0])
    time.sleep(1.5)
    assert Path(f"/proc/{step}").exists()
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    deadline = time.monotonic() + 20
    while Path(f"/proc/{step}").exists() and "State:\tZ" not in Path(f"/proc/{step}/status").read_text():
        assert time.monotonic() < deadline, "the orphaned step goes on"
        time.sleep(0.1)
