"""Lines of the programs about disks, permissions and damaged stores; all other bad input is in tests/bad_input."""

import errno
import os
import shutil
import sys

import pytest
from safetensors import SafetensorError

from multiview import names
from multiview.artifacts.attempt import Attempt
from multiview.artifacts.local_store import LocalStore
from multiview.artifacts.record import read_record, read_whole
from multiview.cli import app as cli
from multiview.cli.app import run_app
from multiview.errors import fault, one_line
from tests.fixtures.forked import run_forked
from tests.fixtures.inprocess import multiview_command

FILLING = """
import resource, signal, sys, tempfile, typer
from multiview.cli.app import run_app
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
app = typer.Typer()
@app.command()
def fill():
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(b"x" * 1000)
        file.write(b"x")
run_app(app)
"""


def test_a_file_that_is_too_large_is_a_line_without_a_class_name():
    line = "error: File too large; the file system or a limit (ulimit -f) allows no larger file\n"
    assert run_forked(FILLING) == (1, "", line)


@pytest.mark.parametrize(
    "error",
    [
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
        RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 227904 vs 227796"),
        RuntimeError("basic_ios::clear: iostream error"),
        shutil.Error([("a.pt", "b.pt", "[Errno 28] No space left on device: 'b.pt'")]),
    ],
)
def test_a_full_disk_is_the_same_line_from_any_library(error):
    """From one in Rust, from torch, and from a copy of a folder."""
    assert fault(error) == errno.ENOSPC
    assert one_line(error) == "No space left on device; make room on the disk, and the same command goes on"


def test_an_error_of_a_library_in_rust_that_nobody_can_mend_keeps_its_name():
    assert fault(SafetensorError("I/O error: Bad file descriptor (os error 9)")) is None
    assert one_line(SafetensorError("header too large")) == "SafetensorError: header too large"


def test_a_folder_in_the_place_of_a_record_is_named_without_a_class_name(tmp_path):
    (tmp_path / "index" / "k" / "artifact.json").mkdir(parents=True)
    with pytest.raises(IsADirectoryError) as error:
        LocalStore(tmp_path).read("index/k/artifact.json")
    record = tmp_path / "index" / "k" / "artifact.json"
    assert one_line(error.value) == f"{record}: Is a directory; a file belongs here: remove the folder"


def test_gc_in_a_store_whose_files_cannot_be_removed_takes_nothing_and_says_so(tmp_path, capsys, monkeypatch):
    store = LocalStore(tmp_path / "store")
    attempt = Attempt(store, names.INDEX, "k")
    (attempt.path / "views").write_text("x")
    record, _ = attempt.publish(step="index", step_version=1, config={}, inputs={})
    (store.root / names.RUNS).mkdir()

    def refuse(path: object, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    words = ["gc", "--delete", "--days", "0", "--store", store.url]
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        patch.setattr(sys, "argv", ["multiview", *words])
        with pytest.raises(SystemExit) as ended:
            run_app(cli.app)
    printed = capsys.readouterr()
    assert ended.value.code == 1 and printed.out.startswith("there is no MLflow database")
    assert printed.out.count("\n") == 1, "nothing is removed"
    path = store.root / names.INDEX / "k" / names.RECORD_FILE
    assert printed.err == (
        f"error: {path}: Permission denied; ask for the right to this file, or choose another place\n"
    )
    assert read_whole(store, names.INDEX, "k") == record
    shutil.rmtree(store.root / names.COLLECTIONS)  # nor could the file that keeps others away be removed
    assert "removed 1 index (0.0 MB)\n" in multiview_command(monkeypatch, capsys, *words)
    assert read_record(store, names.INDEX, "k") is None
