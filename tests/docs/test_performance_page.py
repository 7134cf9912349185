"""docs/performance.md: its tables are what the commands print."""

import pytest

from multiview.estimates.rates import default_rates
from multiview.estimates.step_costs import COSTS
from tests.fixtures.documented import ROOT, words
from tests.fixtures.inprocess import multiview_command

PAGE = (ROOT / "docs" / "performance.md").read_text()


@pytest.mark.documented("multiview plan ")
def test_plans_are_shown_as_they_are_printed(documented, monkeypatch, capsys):
    printed = multiview_command(monkeypatch, capsys, *words(documented))
    assert f"{documented}\n```\n\n{printed.strip()}\n" in PAGE


def test_shares_of_gpus_are_those_of_the_table():
    shares = [default_rates()[f"gpu_{step}_share"] for step in ("encode", "train", "generate", "search")]
    named = "{:.0%} for encoding, {:.0%} for training, {:.0%} for generating queries, {:.0%} for exact search"
    assert named.format(*shares) in PAGE.replace(" %", "%")


def test_every_step_with_a_cost_has_its_limit():
    limits = PAGE.partition("## Where each step has its limit")[2]
    for step in COSTS.keys() - {
        "initial-model",
        "split-again",
        "changes",
        "changes-with-queries",
        "evaluate-bm25",
        "evaluate-bm25-with-queries",
        "encode-with-queries",
    }:
        assert f"`{step}`" in limits, step
