import pytest

from tests.fixtures import system_indexes as worlds


@pytest.fixture(scope="session")
def world(tmp_path_factory) -> worlds.SystemIndexes:
    return worlds.make(tmp_path_factory.mktemp("serving"))
