"""Files are created exclusively and whole, even when processes race."""

import errno
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from multiview.artifacts.staging import verify
from multiview.artifacts.store import LocalStore, open_store
from multiview.errors import InputError
from tests.fixtures.injection import forks
from tests.fixtures.published import publish


def race(root: str, barrier, wins, me: int, rounds: int) -> None:
    store = LocalStore(Path(root))
    for number in range(rounds):
        barrier.wait()
        if store.create(f"race/{number}/artifact.json", bytes([me]) * 100_000):
            wins.put((number, me))


def test_a_hundred_two_process_races_have_one_winner_each(tmp_path):
    barrier, wins, rounds = forks().Barrier(2), forks().Queue(), 100
    racers = [forks().Process(target=race, args=(str(tmp_path), barrier, wins, me, rounds)) for me in (1, 2)]
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


def test_file_systems_that_cannot_create_exclusively_are_refused(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="cannot create files exclusively"):
        open_store("memory://store")

    def no_links(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(InputError, match="no hard links"):
        open_store(str(tmp_path)).check_writable()


def test_a_file_system_that_syncs_no_folders_is_used(tmp_path, monkeypatch):
    synced = os.fsync

    def no_folders(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        synced(descriptor)

    monkeypatch.setattr(os, "fsync", no_folders)
    (store := LocalStore(tmp_path)).check_writable()
    record, _ = publish(store, "k", "text")
    verify(store, record)


def test_a_store_that_is_not_writable_is_an_input_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="not writable"):
        open_store(f"{tmp_path}/file/store").check_writable()


@pytest.mark.parametrize("name", ["a?b", "a%20b", "a%b", "a::b"])
def test_a_folder_that_mlflow_or_fsspec_would_read_as_another_is_refused(tmp_path, monkeypatch, name):
    part = next(part for part in ("?", "%", "::") if part in name)
    line = (
        f"holds {re.escape(part)}, which MLflow or fsspec would read as more than a name; name another folder"
    )
    for url in (f"{tmp_path}/{name}", f"{tmp_path}/{name}/store", f"file://{tmp_path}/{name}"):
        with pytest.raises(InputError, match=f"store {re.escape(url)}: .*{line}"):
            open_store(url)
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / name)
    with pytest.raises(
        InputError, match=f"store store: its path {re.escape(str(tmp_path / name))}/store {line}"
    ):
        open_store("store")


@pytest.mark.parametrize("name", ["a b", "a#b", "a:b", "é", "a;b", "a&b=c", "a@b"])
def test_a_folder_of_any_other_name_is_itself(tmp_path, name):
    assert open_store(f"{tmp_path}/{name}").url == f"{tmp_path}/{name}"


@pytest.mark.parametrize("url", ["", " "])
def test_no_address_is_no_store(url):
    """Such as of `--store "$UNSET"`: it is not the current folder."""
    with pytest.raises(InputError, match="--store names none; give a folder"):
        open_store(url)


def test_a_folder_that_is_removed_while_files_are_listed_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a collection of garbage beside a run."""
    store, scan = LocalStore(tmp_path), os.scandir
    for name in ("gone", "kept"):
        store.replace(f"model/{name}/file", b"1")

    def removed(path: str | Path) -> object:
        if Path(path).name == "gone":
            (Path(path) / "file").unlink()
            Path(path).rmdir()
        return scan(path)

    monkeypatch.setattr(os, "scandir", removed)
    assert [entry.path for entry in store.entries("")] == ["model/kept/file"]


def test_a_folder_that_is_removed_as_it_is_listed_has_no_folders(tmp_path, monkeypatch):
    store, iterdir = LocalStore(tmp_path), Path.iterdir
    (tmp_path / "checkpoint").mkdir()

    def removed(path: Path) -> Iterator[Path]:
        path.rmdir()
        return iterdir(path)

    monkeypatch.setattr(Path, "iterdir", removed)
    assert store.folders("checkpoint") == []
