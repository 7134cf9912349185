"""A refresh whose process dies, or whose disk is full, at any change of a file; then the same command again."""

import pytest

from tests.fixtures.changing_corpus import ChangingCorpus
from tests.fixtures.injection import Fault
from tests.fixtures.tally import Tally
from tests.fixtures.tortured import FAULTS, SHARES, Share, Tortured, needs_seccomp
from tests.fixtures.tortured_plans import FORMATS, QUICK_FORMATS, tiny_refresh

pytestmark = needs_seccomp


@pytest.fixture(scope="module")
def share(request: pytest.FixtureRequest) -> Share:
    return request.param


@pytest.fixture(scope="module")
def tortured(
    share: Share, first_champion: ChangingCorpus, tmp_path_factory: pytest.TempPathFactory
) -> Tortured:
    formats = QUICK_FORMATS if share == "sample" else FORMATS
    return tiny_refresh(first_champion, tmp_path_factory.mktemp("refresh"), formats)


@pytest.mark.parametrize("share", SHARES, indirect=True, scope="module")
@pytest.mark.parametrize(
    "fault",
    [pytest.param(fault, marks=() if fault == "kill" else pytest.mark.torture) for fault in FAULTS],
)
def test_the_same_command_again_ends_with_the_very_same_artifacts(
    tortured: Tortured, fault: Fault, share: Share, tally: Tally
) -> None:
    tortured.torture(fault, share, tally)
