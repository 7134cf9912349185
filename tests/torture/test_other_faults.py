"""Steps that few pipelines have: their process dies, or their disk is full, at any change of a file; then the same command
again."""

from functools import partial

import pytest

from tests.fixtures.injection import Fault
from tests.fixtures.tally import Tally
from tests.fixtures.tortured import Tortured, each_fault, needs_seccomp
from tests.fixtures.tortured_plans import (
    queried_refresh,
    taught_training,
    unlabelled_training,
    warmed_up_training,
)

pytestmark = [needs_seccomp, pytest.mark.torture]
SECONDS: dict[Fault, float] = {"kill": 15, "half": 5, "full": 5, "power": 5}
"""Seconds for the points of a pipeline, by fault."""
MAKE = {
    "a teacher, given negatives": taught_training,
    "crops": partial(unlabelled_training, origin="crop"),
    "a generator": partial(unlabelled_training, origin="generator"),
    "warm-up": warmed_up_training,
    "refresh with queries": queried_refresh,
}


@pytest.fixture(scope="module", params=MAKE)
def tortured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tortured:
    return MAKE[request.param](tmp_path_factory.mktemp("other"))


@each_fault
def test_the_same_command_again_ends_with_the_very_same_artifacts(
    tortured: Tortured, fault: Fault, tally: Tally
) -> None:
    tortured.torture(fault, "all", tally, SECONDS)
