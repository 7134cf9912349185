"""The challenger: the index that was refused last against the champion."""

from __future__ import annotations

from pathlib import Path

import pytest

from multiview.artifacts.champions import crown
from multiview.artifacts.store import LocalStore
from multiview.refresh.freshness import LOOKED_AT, challenger_of
from tests.fixtures.champions import artifact, champion, refuse


def test_it_is_the_last_that_was_refused_against_this_champion(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    first = crown(store, champion(store, 1))
    assert challenger_of(store, first) is None
    indexes = [artifact(store, "index", key) for key in ("early", "late", "other")]
    refuse(store, 1, indexes[1], ended=20)
    refuse(store, 1, indexes[0], ended=10)
    refuse(store, 2, indexes[2], ended=30)
    assert challenger_of(store, first) == indexes[1]
    assert challenger_of(store, champion(store, 2)) == indexes[2]


def test_finding_it_takes_as_long_after_years_of_refreshes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, reads = LocalStore(tmp_path), []
    first = crown(store, champion(store, 1))
    index = artifact(store, "index", "refused")
    for run in range(LOOKED_AT + 20):
        refuse(store, 1, index, ended=run)
    read = LocalStore.read
    monkeypatch.setattr(LocalStore, "read", lambda self, path: reads.append(path) or read(self, path))
    assert challenger_of(store, first) == index
    assert len(reads) <= 4 * LOOKED_AT
    reads.clear()
    assert challenger_of(store, first) == index and not reads
