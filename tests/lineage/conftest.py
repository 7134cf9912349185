"""A store with a run, and a copy of it for a test that changes it."""

import shutil
from collections.abc import Iterator

import pytest

from multiview.artifacts.store import LocalStore
from tests.fixtures.evaluated_run import EvaluatedRun, make


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> EvaluatedRun:
    return make(tmp_path_factory.mktemp("made"))


@pytest.fixture
def world(made, tmp_path) -> Iterator[EvaluatedRun]:
    """A copy in another place, to be damaged; where records say that inputs are, there is nothing any more."""
    shutil.copytree(made.store.root, tmp_path / "store")
    away = made.store.root.rename(made.store.root.with_name("away"))
    yield EvaluatedRun(LocalStore(tmp_path / "store"), made.records)
    away.rename(made.store.root)
