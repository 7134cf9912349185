"""The work of a step: its key, what is in the store already, and what its function is given."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from multiview.artifacts.record import Reference
from multiview.artifacts.store import LocalStore
from multiview.errors import InputError, UndeclaredAccess
from multiview.steps.checkpoints import NO_CHECKPOINTS, StoredCheckpoints
from multiview.steps.events import Events
from multiview.steps.work import Work
from tests.fixtures.counting_step import COUNT, passages, settings
from tests.fixtures.paused_stores import PausedBucket
from tests.fixtures.published import publish


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


def test_the_key_follows_the_content_of_inputs_and_not_their_place(store: LocalStore, tmp_path: Path) -> None:
    here = Work.resolve(COUNT, settings(), {"passages": passages(store, "one")}, store)
    elsewhere = passages(LocalStore(tmp_path / "elsewhere"), "one", "another-key")
    assert Work.resolve(COUNT, settings(), {"passages": elsewhere}, store).key == here.key
    changed = passages(store, "two", "changed")
    assert Work.resolve(COUNT, settings(), {"passages": changed}, store).key != here.key


def test_an_input_that_is_gone_or_was_replaced_is_named(store: LocalStore) -> None:
    given = {"passages": passages(store, "one")}
    shutil.rmtree(store.root / "passages" / "k")
    with pytest.raises(InputError, match=r"passages: there is no artifact at .*/passages/k"):
        Work.resolve(COUNT, settings(), given, store)
    passages(store, "another text")
    with pytest.raises(InputError, match="passages: .* was rebuilt since; run the pipeline again"):
        Work.resolve(COUNT, settings(), given, store)


def test_a_function_is_given_its_inputs_on_local_disk_as_declared(store: LocalStore, tmp_path: Path) -> None:
    whole, recorded = passages(store, "one"), passages(store, "two", "recorded")
    one_file = passages(store, "three", "file").model_copy(update={"file": "a.txt"})
    step = replace(
        COUNT,
        inputs=("passages", "parts", "index"),
        list_inputs=("parts",),
        recorded_inputs=("index",),
    )
    given = {"passages": whole, "parts": [one_file, whole], "index": recorded}
    context = Work.resolve(step, settings(7), given, store).context(store, {"counts": tmp_path}, Events())
    assert (context.input("passages").path / "deep" / "b.txt").read_text() == "oneone"
    first, second = context.list_input("parts")
    assert [file.name for file in first.path.iterdir()] == ["a.txt"]
    assert (second.address, second.digest) == (whole.address, whole.digest)
    assert context.recorded_input("index") == Reference(address=recorded.address, digest=recorded.digest)
    assert context.output("counts") == tmp_path
    assert context.settings.bm25.depth == 7


def test_inputs_that_the_scratch_folder_has_no_room_for_are_named_before_any_is_copied(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An input in a folder needs no room, nor one that is only recorded, nor one that was copied before."""
    asked: list[int] = []
    bucket = PausedBucket(lambda: asked.append(1))
    monkeypatch.setattr(
        "multiview.artifacts.record.open_store", lambda url: bucket if "bucket" in url else store
    )
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=8))
    step = replace(COUNT, inputs=("passages", "index"), recorded_inputs=("index",))

    def work(text: str) -> Work:
        given = passages(bucket, text, text)
        return Work.resolve(step, settings(), {"passages": given, "index": given}, store)

    assert (work("ab").context(store, {}, Events()).input("passages").path / "a.txt").read_text() == "ab"
    large = work("abc")
    before = len(asked)
    with pytest.raises(InputError) as error:
        large.context(store, {}, Events())
    assert len(asked) == before, "nothing was read"
    assert re.fullmatch(
        r"step count: its inputs need 9 bytes, and the disk of the scratch folder \S+ has 8 free: set "
        r"kubeflow\.steps\.count\.scratch, or MULTIVIEW_SCRATCH to a folder with more room",
        str(error.value),
    )
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=0))
    assert work("ab").context(store, {}, Events()).input("passages").path.is_dir(), "it is here already"
    local = {"passages": passages(store, "one"), "index": passages(bucket, "index", "index")}
    assert Work.resolve(step, settings(), local, store).context(store, {}, Events())


def test_an_input_that_is_only_recorded_is_never_read(store: LocalStore) -> None:
    record, _ = publish(store, "k", "one")
    step = replace(COUNT, recorded_inputs=("passages",))
    work = Work.resolve(step, settings(), {"passages": Reference.to(store, record)}, store)
    store.remove(record.data)
    assert work.context(store, {}, Events()).recorded_input("passages").digest == record.digest


def test_the_store_and_checkpoints_are_for_steps_that_declare_them(store: LocalStore, tmp_path: Path) -> None:
    given = {"passages": passages(store, "one")}
    checkpoints = StoredCheckpoints(store, "key")
    plain = Work.resolve(COUNT, settings(), given, store).context(store, {}, Events(), checkpoints)
    assert plain.checkpoints is NO_CHECKPOINTS
    with pytest.raises(UndeclaredAccess, match="reads_store"):
        _ = plain.store
    declared = replace(COUNT, reads_store=True, checkpoints=True)
    context = Work.resolve(declared, settings(), given, store).context(store, {}, Events(), checkpoints)
    assert context.store is store and context.checkpoints is checkpoints
