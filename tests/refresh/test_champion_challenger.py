"""The challenger: the index that was refused last against the champion."""

from __future__ import annotations

from pathlib import Path

import pytest

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


def test_what_a_refresh_was_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, reads = LocalStore(tmp_path), []
    first = crown(store, champion(store, 1))
    index = artifact(store, "index", "refused")
    refuse(store, 1, index, ended=1)
    read = LocalStore.read
    monkeypatch.setattr(LocalStore, "read", lambda self, path: reads.append(path) or read(self, path))
    for _ in range(2):
        assert challenger_of(store, first) == index
    assert len(reads) == len(set(reads)), "nothing is read a second time"
    later = artifact(store, "index", "later")
    refuse(store, 1, later, ended=2)
    assert challenger_of(store, first) == later
