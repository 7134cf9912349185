"""docs/planning.md shows the table that the command prints, and the shares that the formulas have."""

import pytest

from multiview.plans.scenario import RATES
from tests.fixtures.documented import ROOT, words
from tests.fixtures.inprocess import multiview_command

PAGE = (ROOT / "docs" / "planning.md").read_text()


@pytest.mark.documented("multiview plan ")
def test_plans_are_shown_as_they_are_printed(documented, monkeypatch, capsys):
    printed = multiview_command(monkeypatch, capsys, *words(documented))
    assert f"{documented}\n```\n\n{printed.strip()}\n" in PAGE


def test_shares_of_gpus_are_those_of_the_formulas():
    shares = [RATES[work][2] for work in ("encode", "train", "generate", "search")]
    named = "{:.0%} for encoding, {:.0%} for training, {:.0%} for generating queries, {:.0%} for exact search"
    assert named.format(*shares) in PAGE.replace(" %", "%")
