import pytest

from tests.fixtures.system_indexes import SystemIndexes, make


@pytest.fixture(scope="session")
def indexes(tmp_path_factory) -> SystemIndexes:
    return make(tmp_path_factory.mktemp("serving"))
