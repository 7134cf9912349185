"""A store that several files look at."""

import pytest

from tests.fixtures.watched_store import Watched, watch


@pytest.fixture(scope="session")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    return watch(tmp_path_factory.mktemp("watched"))
