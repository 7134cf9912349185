"""A refresh whose process dies, or whose disk is full, at any change of a file; then the same command again."""

from typing import get_args

import pytest

from tests.fixtures import injection
from tests.fixtures.injection import Fault
from tests.fixtures.tally import Tally
from tests.fixtures.tortured import Share, Tortured, tiny_refresh

pytestmark = pytest.mark.skipif(not injection.possible, reason="needs Linux's seccomp on x86-64")


@pytest.fixture(scope="module")
def tortured(tmp_path_factory: pytest.TempPathFactory) -> Tortured:
    return tiny_refresh(tmp_path_factory.mktemp("refresh"))


@pytest.mark.parametrize("fault", [fault for fault in get_args(Fault) if fault != "none"])
@pytest.mark.parametrize("share", ["sample", pytest.param("all", marks=pytest.mark.torture)])
def test_the_same_command_again_ends_with_the_very_same_artifacts(
    tortured: Tortured, fault: Fault, share: Share, tally: Tally
) -> None:
    tortured.torture(fault, share, tally)
