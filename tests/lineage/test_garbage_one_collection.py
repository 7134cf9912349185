"""Of two collections of a store's garbage one is refused."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from multiview import names
from multiview.artifacts.champions import crown, current, read_champion
from multiview.artifacts.record import read_record
from multiview.artifacts.store import LocalStore
from multiview.errors import InputError
from multiview.lineage import garbage
from multiview.lineage.garbage import Garbage, only_collection
from tests.fixtures.champions import artifact, champion

AT_WORK = (
    "a multiview gc --delete or a rollback is at work, last heard of at .* UTC; .* if it was killed, remove "
)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path)


def files(store: LocalStore) -> list[str]:
    return store.files(names.COLLECTIONS)


def silent(store: LocalStore, seconds: float) -> None:
    then = time.time() - seconds
    for file in files(store):
        os.utime(store.root / file, (then, then))


def test_a_second_collection_is_refused_and_changes_nothing(store: LocalStore) -> None:
    artifact(store, names.INDEX, "old")
    asked = False

    def pieces() -> Iterator[Garbage]:
        nonlocal asked
        asked = True
        yield Garbage(names.INDEX, "index/old", 0)

    with only_collection(store):
        (first,) = files(store)
        with pytest.raises(InputError, match=AT_WORK) as refused:
            list(garbage.remove_all(store, pieces(), set))
        assert str(refused.value).endswith(f"remove {store.url}/{first} first")
        assert files(store) == [first] and not asked and read_record(store, names.INDEX, "old")
    assert files(store) == []
    assert [piece.path for piece in garbage.remove_all(store, pieces(), set)] == ["index/old"]


def test_of_two_that_begin_together_one_is_refused(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first has written its file and has yet to look."""
    look = garbage._check_alone
    refused = []

    def second_begins(store: LocalStore, own: str) -> None:
        monkeypatch.setattr(garbage, "_check_alone", look)
        with pytest.raises(InputError, match=AT_WORK), only_collection(store):
            pass
        refused.append(own)
        look(store, own)

    monkeypatch.setattr(garbage, "_check_alone", second_begins)
    with only_collection(store):
        assert len(refused) == 1 and files(store) == refused


@pytest.mark.parametrize("error", [KeyboardInterrupt, InputError])
def test_a_collection_that_fails_keeps_no_other_away(store: LocalStore, error: type[BaseException]) -> None:
    with pytest.raises(error), only_collection(store):
        raise error("failed")
    assert files(store) == []


def test_a_killed_one_keeps_others_away_for_half_a_day(store: LocalStore) -> None:
    store.replace(f"{names.COLLECTIONS}/killed.json", b"{}")
    silent(store, garbage.DEAD_SECONDS - 60)
    with pytest.raises(InputError, match=f"{AT_WORK}.*/killed.json first"), only_collection(store):
        pass
    silent(store, garbage.DEAD_SECONDS + 60)
    with only_collection(store):
        assert len(files(store)) == 1 and not files(store)[0].endswith("killed.json")


def test_a_long_one_is_not_taken_for_dead_and_one_that_was_ends(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="taken for dead; run it again"), only_collection(store) as say_alive:
        silent(store, garbage.DEAD_SECONDS + 60)
        say_alive()
        assert store.entries(names.COLLECTIONS)[0].modified < time.time() - garbage.DEAD_SECONDS
        monkeypatch.setattr(garbage, "ALIVE_SECONDS", 0.0)
        say_alive()
        with pytest.raises(InputError, match=AT_WORK), only_collection(store):
            pass
        silent(store, garbage.DEAD_SECONDS + 60)
        with only_collection(store):
            pass
        say_alive()


def test_a_rollback_and_a_collection_exclude_each_other(store: LocalStore) -> None:
    for number in (1, 2):
        crown(store, champion(store, number))
    with only_collection(store), pytest.raises(InputError, match=AT_WORK):
        garbage.rollback(store)
    assert current(store) == read_champion(store, 2)

    def killed() -> set[garbage.ArtifactId]:
        raise KeyboardInterrupt

    piece = Garbage(names.INDEX, "index/of-1", 0)
    with pytest.raises(KeyboardInterrupt):
        list(garbage.remove_all(store, [piece], killed))
    assert read_record(store, names.INDEX, "of-1") is None, "it was put aside"
    assert garbage.rollback(store).restores == 1
    assert read_record(store, names.INDEX, "of-1") is not None
