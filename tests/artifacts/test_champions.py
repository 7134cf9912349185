"""The champion's files: created exclusively, never changed; a rollback is the next file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from multiview.artifacts.champions import (
    champion_file,
    champion_numbers,
    crown,
    current,
    read_champion,
    rollback,
)
from multiview.artifacts.store import LocalStore
from multiview.errors import InputError
from tests.fixtures.champions import champion


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path)


def test_the_highest_number_is_the_champion(store: LocalStore) -> None:
    assert current(store) is None and champion_numbers(store) == []
    made = [crown(store, champion(store, number)) for number in (1, 2, 3)]
    assert current(store) == made[2] and champion_numbers(store) == [1, 2, 3]
    assert (store.root / "champions" / "000003.json").is_file()
    assert [read_champion(store, number) for number in (1, 2, 3)] == made, "and the others are as they were"


def test_to_crown_again_changes_nothing_and_of_two_the_first_wins(store: LocalStore) -> None:
    """A number is an exclusive creation, for which tests/artifacts/test_store.py lets processes race."""
    wanted = champion(store, 1)
    first = crown(store, wanted)
    assert crown(store, wanted) == first
    with pytest.raises(InputError, match="promoted meanwhile.*changed nothing"):
        crown(store, champion(store, 1, "another"))
    assert current(store) == first


def test_rollbacks_go_back_one_after_another_and_forward_again(store: LocalStore) -> None:
    made = [crown(store, champion(store, number)) for number in (1, 2, 3)]
    fourth, fifth = rollback(store), rollback(store)
    assert (fourth.index, fourth.restores, fourth.predecessor) == (made[1].index, 2, 3)
    assert (fifth.index, fifth.restores, fifth.predecessor) == (made[0].index, 1, 4)
    with pytest.raises(InputError, match="champion 1 is the first"):
        rollback(store)
    assert rollback(store, 3).index == made[2].index
    assert rollback(store).index == made[1].index, "what the third replaced"
    assert champion_numbers(store) == [1, 2, 3, 4, 5, 6, 7] and current(store) == read_champion(store, 7)


def test_a_rollback_to_nothing_else(store: LocalStore) -> None:
    for number in (1, 2):
        crown(store, champion(store, number))
    store.remove("index/of-1")
    for to, said in (
        (None, "champion 1: there is no artifact .*index/of-1.*--to NUMBER"),
        (9, "has no champion 9; it has: 1, 2"),
        (2, "champion 2 already answers from the index of champion 2"),
    ):
        with pytest.raises(InputError, match=said):
            rollback(store, to)
    assert champion_numbers(store) == [1, 2]


def test_a_copied_store_does_not_go_back_to_an_index_of_its_original(
    store: LocalStore, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The original does not know of the copy's champions, and may collect what they refer to."""
    for number in (1, 2):
        crown(store, champion(store, number))
    copied = LocalStore(shutil.copytree(store.root, tmp_path_factory.mktemp("copies") / "store"))
    copied.remove("index/of-1")
    with pytest.raises(InputError, match=f"its index is in {store.url} alone; copy .*index/of-1 here first"):
        rollback(copied)
    assert champion_numbers(copied) == [1, 2]
    copied.remove("model/of-1")
    shutil.copytree(store.root / "index/of-1", copied.root / "index/of-1")
    assert rollback(copied).restores == 1, "a model may be in another store"


def test_where_the_only_champion_is_gone_it_can_be_removed(store: LocalStore) -> None:
    crown(store, champion(store, 1))
    store.remove("index/of-1")
    with pytest.raises(InputError, match="if none does, remove .*champions/000001.json and refresh"):
        read_champion(store, 1).load(store)


def test_a_rollback_without_a_champion_or_a_store(store: LocalStore) -> None:
    with pytest.raises(InputError, match=f"^store {store.url}: there is nothing; is it the right one"):
        rollback(store)
    (store.root / "runs").mkdir(parents=True)
    with pytest.raises(InputError, match="has no champion: run the pipeline refresh first"):
        rollback(store)


def test_a_damaged_champion_is_no_other_one(store: LocalStore) -> None:
    crown(store, champion(store, 1))
    good = store.read(champion_file(1)) or b""
    for bad in (good[:40], b"", good.replace(b'"number": 1', b'"number": 7')):
        store.replace(champion_file(1), bad)
        with pytest.raises(InputError, match=r"champions/000001\.json"):
            current(store)


def test_a_store_that_was_moved_has_its_champion(store: LocalStore, tmp_path: Path) -> None:
    crown(store, champion(store, 1))
    moved = LocalStore(tmp_path.rename(tmp_path.with_name("moved")))
    found = current(moved)
    assert found is not None
    assert {kind: where.url for kind, (where, _) in found.load(moved).items()} == dict.fromkeys(
        ("index", "model", "passages"), moved.url
    )
