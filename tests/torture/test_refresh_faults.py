"""A refresh whose process dies, or whose disk is full, at any change of a file; then the same command again."""

import pytest

from tests.fixtures.injection import Fault
from tests.fixtures.tally import Tally
from tests.fixtures.tortured import Share, Tortured, each_fault, each_share, needs_seccomp
from tests.fixtures.tortured_plans import tiny_refresh

pytestmark = needs_seccomp


@pytest.fixture(scope="module")
def tortured(tmp_path_factory: pytest.TempPathFactory) -> Tortured:
    return tiny_refresh(tmp_path_factory.mktemp("refresh"))


@each_fault
@each_share
def test_the_same_command_again_ends_with_the_very_same_artifacts(
    tortured: Tortured, fault: Fault, share: Share, tally: Tally
) -> None:
    tortured.torture(fault, share, tally)
