"""Files of a local store are read against their record once, and again after every change."""

import os
import time
from pathlib import Path

import pytest

from multiview.artifacts import staging
from multiview.artifacts.record import Record
from multiview.artifacts.staging import SETTLED, read_stamps, stage, verified_file
from multiview.artifacts.store import LocalStore
from multiview.errors import InputError
from tests.fixtures.published import publish


@pytest.fixture
def reads(monkeypatch) -> list[str]:
    """The names of the files that were read against their records."""
    found: list[str] = []

    def file_sha256(path: Path) -> str:
        found.append(path.name)
        return whole(path)

    whole = staging.file_sha256
    monkeypatch.setattr(staging, "file_sha256", file_sha256)
    return found


def settled(store: LocalStore) -> Record:
    record, _ = publish(store, "k", "text")
    store.remove(verified_file(record.data))  # a slow machine has written it by now
    time.sleep(2 * SETTLED / 1e9)
    return record


def test_a_file_is_read_once_however_often_it_is_staged(tmp_path, reads):
    store = LocalStore(tmp_path)
    record = settled(store)
    for _ in range(3):
        stage(store, record)
        stage(store, record, "a.txt")
    assert sorted(reads) == ["a.txt", "b.txt"]
    assert set(read_stamps(store, record.data)) == {"a.txt", "deep/b.txt"}
    stage(store, record, check="bytes")
    assert sorted(reads) == ["a.txt", "a.txt", "b.txt", "b.txt"]


@pytest.mark.parametrize("times_restored", [False, True])
def test_a_file_of_the_same_size_that_was_altered_is_named_until_it_is_mended(tmp_path, times_restored):
    store = LocalStore(tmp_path)
    record = settled(store)
    stage(store, record)
    file = tmp_path / record.data / "a.txt"
    before = file.stat()
    file.write_text("TEXT")
    if times_restored:
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    for _ in range(2):
        with pytest.raises(InputError, match=r"a\.txt was altered .*remove the folder .* and run again"):
            stage(store, record)
    file.write_text("text")
    assert (stage(store, record).path / "a.txt").read_text() == "text"


def test_a_file_that_was_just_written_is_read_again(tmp_path, reads, monkeypatch):
    """Another write at the same tick of the file system's clock would leave the same times."""
    monkeypatch.setattr(staging, "SETTLED", 10**12)
    store = LocalStore(tmp_path)
    record, _ = publish(store, "k", "text")
    (tmp_path / record.data / "a.txt").write_text("text")
    stage(store, record, "a.txt")
    stage(store, record, "a.txt")
    assert reads == ["a.txt", "a.txt"]


def test_what_is_remembered_may_be_damaged_or_not_be_writable(tmp_path, reads, monkeypatch):
    store = LocalStore(tmp_path)
    record = settled(store)
    for text in ("[1]", "{", '{"a.txt": 3}', '{"a.txt": [1]}', "\udcff"):
        (tmp_path / verified_file(record.data)).write_bytes(text.encode("utf-8", "surrogateescape"))
        stage(store, record, "a.txt")
    assert reads == ["a.txt"] * 5
    (tmp_path / verified_file(record.data)).unlink()

    def refuse(path: str, data: bytes) -> None:
        raise PermissionError(path)

    monkeypatch.setattr(store, "replace", refuse)
    stage(store, record, "a.txt")
    assert read_stamps(store, record.data) == {}
