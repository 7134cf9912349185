"""A refresh that ends at any of its writes leaves a whole champion, and the same command goes on."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import pytest

from multiview import names
from multiview.artifacts.champions import champion_numbers, current
from multiview.artifacts.staging import verify
from multiview.artifacts.store import LocalStore
from multiview.plans.plan import Plan
from tests.fixtures.changing_corpus import ChangingCorpus
from tests.fixtures.injection import forks
from tests.fixtures.inprocess import run_plan

MADE_ANEW = (names.CHAMPION, names.CHANGES, names.VERDICT, names.PROMOTION, names.REPORT)
"""Kinds of the steps that need no torch: these are done in every run here, the others are found."""


class Crash(BaseException):
    """The end of a process, after which nothing cleans up."""


class Failing(LocalStore):
    """A local store with which something happens before one of its writes, or after it: when `when` says so of the
    write's number, from 1, and its path."""

    def __init__(
        self, root: Path, when: Callable[[int, str], bool], happens: Callable[[], None], after: bool = False
    ) -> None:
        super().__init__(root)
        self.when, self.happens, self.after = when, happens, after
        self.paths: list[str] = []

    @contextlib.contextmanager
    def _written(self, path: str) -> Iterator[None]:
        self.paths.append(path)
        now = self.when(len(self.paths), path)
        if now and not self.after:
            self.happens()
        yield
        if now and self.after:
            self.happens()

    def create(self, path: str, data: bytes) -> bool:
        with self._written(path):
            return super().create(path, data)

    def replace(self, path: str, data: bytes) -> None:
        with self._written(path):
            super().replace(path, data)

    def save(self, workspace: Path, path: str) -> None:
        with self._written(path):
            super().save(workspace, path)


class Begun:
    """A champion, a change, and the steps behind it that take long."""

    def __init__(self, folder: Path) -> None:
        self.changing = ChangingCorpus.make(folder)
        self.changing.refresh(refresh={"model": self.changing.with_model()})
        self.changing.change(3)
        self.changing.add("new-1")
        self.plan: Plan = self.changing.plan()
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
def begun(tmp_path_factory: pytest.TempPathFactory) -> Begun:
    return Begun(tmp_path_factory.mktemp("crashes"))


def check_whole(root: Path) -> int:
    """The number of the champion, after a check of all of its bytes."""
    store = LocalStore(root)
    champion = current(store)
    assert champion is not None
    for where, record in champion.load(store).values():
        verify(where, record)
    return champion.number


def crash() -> None:
    raise Crash


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_at_every_write(begun: Begun, tmp_path: Path) -> None:
    """A crash before each write, and so after the one before it, up to a run that has no such write.

    How many there are differs from run to run, since progress is written by the clock.
    """
    crashed: list[int] = []
    for write in itertools.count(1):
        root = begun.copy(tmp_path)
        store = Failing(root, lambda number, path, write=write: number == write, crash)
        with contextlib.suppress(Crash):
            assert begun.run(store).digest == begun.expected.digest
            break
        crashed.append(2 if "champions/000002.json" in store.paths[: write - 1] else 1)
        assert check_whole(root) == crashed[-1]
        assert begun.run(LocalStore(root)).digest == begun.expected.digest
        assert check_whole(root) == 2 and champion_numbers(LocalStore(root)) == [1, 2]
        shutil.rmtree(root)
    assert crashed.count(1) > 20 and crashed.count(2) > 1


@dataclass(frozen=True)
class At:
    """Whether a path matches; a class, because it is pickled for another process."""

    pattern: str

    def __call__(self, number: int, path: str) -> bool:
        return fnmatch(path, self.pattern)


@pytest.mark.parametrize(
    ("path", "after"),
    [("champions/000002.json", False), ("champions/000002.json", True), ("promotion/*/artifact.json", True)],
    ids=["before-promotion", "after-promotion", "after-its-record"],
)
def test_killed(begun: Begun, tmp_path: Path, path: str, after: bool) -> None:
    root = begun.copy(tmp_path)
    # In no fork of this process: faiss' threads do not survive that.
    child = forks().Process(target=begun.run, args=(Failing(root, At(path), kill, after),))
    child.start()
    child.join(timeout=100)
    assert child.exitcode == -signal.SIGKILL
    assert check_whole(root) == (2 if after else 1)
    begun.run(LocalStore(root))
    assert check_whole(root) == 2 and champion_numbers(LocalStore(root)) == [1, 2]
