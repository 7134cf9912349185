"""Each guard of docs/security.md has a test."""

import re

from tests.fixtures.project import ROOT


def test_every_test_that_the_page_names_is_there():
    named = re.findall(
        r"\[`(\w+)`\]\(\.\./([\w/.]+)\)", (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    )
    assert len(named) > 25
    for test, file in named:
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file} has no {test}"
