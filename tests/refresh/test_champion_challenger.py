"""The challenger: the index that was refused last against the champion."""

from __future__ import annotations

from pathlib import Path

from multiview.artifacts.champions import crown
from multiview.artifacts.store import LocalStore
from multiview.refresh.champion import challenger_of
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
