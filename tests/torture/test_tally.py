"""The table at the end of a session: every test's counts once, from processes of pytest-xdist too."""

import io
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console

from tests.fixtures.project import ROOT
from tests.fixtures.tally import TRIED, print_counts

pytest_plugins = ["pytester"]

CONFTEST = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.conftest import pytest_terminal_summary, tally
"""
COUNTING = """
import pytest
from tests.fixtures.tally import SURVIVED, TRIED

@pytest.mark.parametrize("number", range(1, 4))
def test_counts(number, tally):
    tally.add(TRIED, number, of="training, killed")
    tally.add(SURVIVED)

@pytest.mark.skipif(True, reason="needs Linux's seccomp")
@pytest.mark.parametrize("number", range(2))
def test_skipped(number):
    pass

def test_another(tally):
    tally.add(TRIED, 1000, of="refresh, disk full")
    with pytest.raises(ValueError, match="is not counted"):
        tally.add("tired")
"""


SKIPPED = """
import pytest

def test_skipped():
    pytest.skip("of no fault")
"""


def test_counts_are_summed_over_tests_and_processes(pytester: pytest.Pytester) -> None:
    Path(pytester.path / "conftest.py").write_text(CONFTEST)
    pytester.makepyfile(**{"tests/torture/test_counting": COUNTING, "test_other": SKIPPED})
    others = ("-p", "no:langsmith_plugin", "-p", "no:schemathesis")  # as in pyproject.toml
    result = pytester.runpytest_subprocess("-n", "2", *others)
    result.stdout.fnmatch_lines(
        [
            "*broken on purpose*",
            "injection points tried * 1,006",
            "  refresh, disk full * 1,000",
            "  training, killed * 6",
            "faults survived * 3",
            "skipped 2 tests: needs Linux's seccomp",
            "nothing lost",
        ]
    )


def test_a_failure_is_not_called_nothing_lost() -> None:
    console = Console(file=io.StringIO())
    print_counts(console, Counter({(TRIED, ""): 2}), failed=True)
    assert isinstance(console.file, io.StringIO)
    assert "nothing lost" not in (printed := console.file.getvalue()) and "some tests failed" in printed
