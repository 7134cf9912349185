"""Artifacts are checked when they are staged, and one file can be staged alone."""

import errno
import os
from pathlib import Path

import pytest

from multiview.artifacts.staging import stage, verify
from multiview.artifacts.store import LocalStore
from multiview.errors import InputError
from tests.fixtures.published import publish


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


@pytest.mark.parametrize("links", [True, False])
def test_one_file_of_an_artifact_can_be_staged_alone(links, tmp_path, monkeypatch):
    """Also on a file system without links."""

    def no_links(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    if not links:
        monkeypatch.setattr(os, "symlink", no_links)
    store = LocalStore(tmp_path)
    record, _ = publish(store, "k", "text")
    staged = stage(store, record, "a.txt")
    assert [path.name for path in staged.path.iterdir()] == ["a.txt"]
    assert (staged.path / "a.txt").is_symlink() == links
    assert (staged.path / "a.txt").read_text() == "text"
    assert staged.digest == record.file("a.txt").sha256
    with pytest.raises(InputError, match="has no file c.txt"):
        stage(store, record, "c.txt")
