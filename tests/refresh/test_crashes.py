"""A refresh that ends at any of its writes leaves a whole champion, and the same command goes on."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from multiview import names
from multiview.artifacts.staging import verify
from multiview.artifacts.store import LocalStore
from multiview.refresh.champions import current, numbers
from pipelines.plan import Plan
from tests.pipelines.inprocess import run_plan
from tests.refresh.pipeline import World

MADE_ANEW = (names.CHAMPION, names.CHANGES, names.VERDICT, names.PROMOTION, names.REPORT)
"""Kinds of the steps that need no torch: these are done in every run here, the others are found."""


class Crash(BaseException):
    """As of a process that is gone: nobody cleans up."""


class Failing(LocalStore):
    """A local store with which something happens before or after one of its writes."""

    def __init__(self, root: Path, at: int, after: bool, happens: Callable[[], None]) -> None:
        super().__init__(root)
        self.writes, self.at, self.after, self.happens = 0, at, after, happens
        self.paths: list[str] = []

    @contextlib.contextmanager
    def _written(self, path: str) -> Iterator[None]:
        self.writes += 1
        self.paths.append(path)
        now = self.writes == self.at
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
        self.world = World.make(folder)
        self.world.refresh(refresh={"model": self.world.with_model()})
        self.world.change(3)
        self.world.add("new-1")
        self.plan: Plan = self.world.plan()
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
    """The number of the champion, every byte of which is there."""
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
    counting = Failing(begun.copy(tmp_path), 0, False, crash)
    assert begun.run(counting).digest == begun.expected.digest
    assert counting.writes > 30 and "champions/000002.json" in counting.paths
    shutil.rmtree(tmp_path / "store")
    for at in range(1, counting.writes + 1):
        for after in (False, True):
            root = begun.copy(tmp_path)
            with pytest.raises(Crash):
                begun.run(Failing(root, at, after, crash))
            crowned = counting.paths.index("champions/000002.json") + 1
            assert check_whole(root) == (2 if (at, after) >= (crowned, True) else 1)
            assert begun.run(LocalStore(root)).digest == begun.expected.digest
            assert check_whole(root) == 2 and numbers(LocalStore(root)) == [1, 2]
            shutil.rmtree(root)


@pytest.mark.parametrize(
    ("path", "after"),
    [("champions/000002.json", False), ("champions/000002.json", True), ("promotion/", True)],
    ids=["before-promotion", "after-promotion", "after-its-record"],
)
def test_killed(begun: Begun, tmp_path: Path, path: str, after: bool) -> None:
    counting = Failing(begun.copy(tmp_path), 0, False, crash)
    begun.run(counting)
    shutil.rmtree(tmp_path / "store")
    at = max(number for number, written in enumerate(counting.paths, 1) if written.startswith(path))
    root = begun.copy(tmp_path)
    child = multiprocessing.get_context("fork").Process(
        target=begun.run, args=(Failing(root, at, after, kill),)
    )
    child.start()
    child.join(timeout=120)
    assert child.exitcode == -signal.SIGKILL
    assert check_whole(root) == (2 if after else 1)
    begun.run(LocalStore(root))
    assert check_whole(root) == 2 and numbers(LocalStore(root)) == [1, 2]
