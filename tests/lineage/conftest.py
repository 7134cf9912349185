"""A store with a run, and a copy of it for a test that changes it."""

import shutil
from collections.abc import Iterator

import pytest

from multiview.artifacts.store import LocalStore
from tests.fixtures.evaluated_run import EvaluatedRun, make


@pytest.fixture(scope="session")
def evaluated_run(tmp_path_factory) -> EvaluatedRun:
    return make(tmp_path_factory.mktemp("made"))


@pytest.fixture
def copied_run(evaluated_run, tmp_path) -> Iterator[EvaluatedRun]:
    """A copy in another place, to be damaged; where records say that inputs are, there is nothing any more."""
    shutil.copytree(evaluated_run.store.root, tmp_path / "store")
    away = evaluated_run.store.root.rename(evaluated_run.store.root.with_name("away"))
    yield EvaluatedRun(LocalStore(tmp_path / "store"), evaluated_run.records)
    away.rename(evaluated_run.store.root)
