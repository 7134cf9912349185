"""Many refreshes in a row, by chance, of every kind of index: it stays what is built from nothing, in bounded room."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest

from multiview.index.approximate import EXACT, FACTORY
from tests.fixtures.churn import Churn
from tests.fixtures.tally import Tally
from tests.fixtures.tortured import SEED

REFRESHES = int(os.environ.get("MULTIVIEW_CHURN", "200"))
COMPARISONS = 10
"""Comparisons before that at the end."""
FEW = (
    ("add", "change", "remove"),
    ("columns", "killed"),
    ("rollback", "gc", "reorder"),
    ("change", "gate"),
    ("gc, killed", "add"),
)


def test_after_each_of_some_refreshes_an_index_is_that_of_a_rebuild(tmp_path: Path, tally: Tally) -> None:
    churn = Churn(tmp_path / "churn", "compact", SEED)
    for events in FEW:
        churn.happen(*events)
    churn.compare(tmp_path / "end")
    churn.count(tally)


@pytest.mark.torture
@pytest.mark.parametrize("kind", [EXACT, *FACTORY])
def test_after_each_of_many_refreshes_an_index_is_that_of_a_rebuild(
    tmp_path: Path, kind: str, tally: Tally
) -> None:
    churn = Churn(tmp_path / "churn", kind, SEED)
    every = REFRESHES // (COMPARISONS + 1)
    for number in range(1, REFRESHES + 1):
        churn.happen(*churn.at_random())
        if number % every == 0 and number // every <= COMPARISONS:
            churn.compare(tmp_path / str(number))
    churn.compare(tmp_path / "end")
    churn.count(tally)
    grown = [after - before for before, after in pairwise(churn.sizes)]
    half = len(grown) // 2
    assert sum(grown[half:]) / len(grown[half:]) < 1.5 * sum(grown[:half]) / half, "what stays grows evenly"
