from collections.abc import Iterator

import pytest

from tests.fixtures.servers import Inbox, inbox


@pytest.fixture
def receiver() -> Iterator[Inbox]:
    """An address that takes notices."""
    with inbox() as received:
        yield received
