"""A process leaves no scratch folder behind, however it ends by itself."""

import os
import subprocess
import sys

import pytest

from multiview.artifacts.scratch import remove_scratch, scratch
from multiview.artifacts.staging import stage
from multiview.artifacts.store import LocalStore
from multiview.errors import InputError
from tests.fixtures.published import publish


def test_a_folder_that_is_not_there_is_named(tmp_path, monkeypatch):
    remove_scratch()
    monkeypatch.setenv("MULTIVIEW_SCRATCH", str(tmp_path / "gone"))
    with pytest.raises(
        InputError, match=rf"^MULTIVIEW_SCRATCH={tmp_path}/gone: there is no such folder; make it"
    ):
        scratch()


def test_it_is_removed_at_the_end_of_its_process_and_a_fork_removes_its_own_alone(tmp_path):
    code = """
import os
from multiview.artifacts.scratch import remove_scratch, scratch
own = scratch()
(own / "copy").write_text("x")
if os.fork() == 0:
    remove_scratch()
    assert own.is_dir() and scratch() != own
    remove_scratch()
    os._exit(0)
assert os.wait()[1] == 0 and [own] == list(own.parent.iterdir())
1 / 0
"""
    variables = os.environ | {"MULTIVIEW_SCRATCH": str(tmp_path)}
    ended = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True)
    assert ended.stderr.endswith("ZeroDivisionError: division by zero\n")
    assert not list(tmp_path.iterdir())


def test_it_is_made_where_something_is_copied_alone(tmp_path, monkeypatch):
    remove_scratch()
    monkeypatch.setenv("MULTIVIEW_SCRATCH", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    store = LocalStore(tmp_path / "store")
    record, _ = publish(store, "k", "text")
    stage(store, record)
    assert not list((tmp_path / "scratch").iterdir())
    stage(store, record, "a.txt")
    assert list((tmp_path / "scratch").iterdir()) == [scratch()]
    remove_scratch()
    assert not list((tmp_path / "scratch").iterdir())
