"""A refresh that ends at any of its writes leaves a whole champion, and the same command goes on."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
from pathlib import Path

import pytest

from multiview import names
from multiview.artifacts.champions import champion_numbers, current
from multiview.artifacts.staging import verify
from multiview.artifacts.store import LocalStore
from multiview.plans.plan import Plan
from tests.fixtures.changing_corpus import ChangingCorpus
from tests.fixtures.inprocess import run_plan

MADE_ANEW = (names.CHAMPION, names.CHANGES, names.VERDICT, names.PROMOTION, names.REPORT)
"""Kinds of the steps that need no torch: these are done in every run here, the others are found."""


class Crash(BaseException):
    """The end of a process. Those of real ones are in tests/torture/test_refresh_faults.py."""


class Crashing(LocalStore):
    """A local store with a crash before one of its writes, counted from 1; `paths` are those before it."""

    def __init__(self, root: Path, at: int) -> None:
        super().__init__(root)
        self.at, self.paths = at, list[str]()

    def _write(self, path: str) -> None:
        if len(self.paths) + 1 == self.at:
            raise Crash
        self.paths.append(path)

    def create(self, path: str, data: bytes) -> bool:
        self._write(path)
        return super().create(path, data)

    def replace(self, path: str, data: bytes) -> None:
        self._write(path)
        super().replace(path, data)

    def save(self, workspace: Path, path: str) -> None:
        self._write(path)
        super().save(workspace, path)


class Begun:
    """A champion, a change, and the steps behind it that take long."""

    def __init__(self, champion: ChangingCorpus, folder: Path) -> None:
        self.plan: Plan = champion.changed_once(folder).plan()
        self.expected = self.run(LocalStore(folder / "store"))
        self.root = folder / "store"
        for kind in MADE_ANEW:
            shutil.rmtree(self.root / kind)
        shutil.rmtree(self.root / names.INDEX / self.expected.key)
        (self.root / names.CHAMPIONS / "000002.json").unlink()

    def run(self, store: LocalStore):
        return run_plan(self.plan, store)["challenger/index"][names.INDEX]

    def copy(self, folder: Path) -> Path:
        return Path(shutil.copytree(self.root, folder / "store", copy_function=os.link))


@pytest.fixture(scope="module")
def begun(first_champion: ChangingCorpus, tmp_path_factory: pytest.TempPathFactory) -> Begun:
    return Begun(first_champion, tmp_path_factory.mktemp("crashes"))


def check_whole(root: Path) -> int:
    """The number of the champion, after a check of all of its bytes."""
    store = LocalStore(root)
    champion = current(store)
    assert champion is not None
    for where, record in champion.load(store).values():
        verify(where, record)
    return champion.number


def test_at_every_write(begun: Begun, tmp_path: Path) -> None:
    """A crash before each write, and so after the one before it, up to a run that has no such write.

    How many there are differs from run to run, since progress is written by the clock.
    """
    crashed: list[int] = []
    for write in itertools.count(1):
        root = begun.copy(tmp_path)
        store = Crashing(root, write)
        with contextlib.suppress(Crash):
            assert begun.run(store).digest == begun.expected.digest
            break
        crashed.append(2 if "champions/000002.json" in store.paths else 1)
        assert check_whole(root) == crashed[-1]
        assert begun.run(LocalStore(root)).digest == begun.expected.digest
        assert check_whole(root) == 2 and champion_numbers(LocalStore(root)) == [1, 2]
        shutil.rmtree(root)
    assert crashed.count(1) > 20 and crashed.count(2) > 1
