"""A comparison with generated queries whose process dies, or whose disk is full, at any change of a file; then the same
command again."""

import pytest

from tests.fixtures.injection import Fault
from tests.fixtures.tally import Tally
from tests.fixtures.tortured import Tortured, each_fault, needs_seccomp
from tests.fixtures.tortured_plans import generated_comparison

pytestmark = [needs_seccomp, pytest.mark.torture]


@pytest.fixture(scope="module")
def tortured(tmp_path_factory: pytest.TempPathFactory) -> Tortured:
    return generated_comparison(tmp_path_factory.mktemp("comparison"))


@each_fault
def test_the_same_command_again_ends_with_the_very_same_artifacts(
    tortured: Tortured, fault: Fault, tally: Tally
) -> None:
    tortured.torture(fault, "all", tally)
