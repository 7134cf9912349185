"""Commands of `python -m pipelines` that start no pipeline."""

from __future__ import annotations

from typing import Any

import pytest

from multiview.artifacts.champions import current
from multiview.config import Export
from multiview.export import step
from tests.fixtures.changing_corpus import ChangingCorpus
from tests.fixtures.documented import words
from tests.fixtures.inprocess import command
from tests.fixtures.shipped_refresh import aliases


@pytest.mark.documented("python -m pipelines rollback")
def test_rollback_says_what_answers(
    documented: str, promoted_corpus: ChangingCorpus, monkeypatch: Any, capsys: Any
) -> None:
    first, where = (
        current(promoted_corpus.store),
        ["--store", promoted_corpus.store.url, "--tracking-uri", promoted_corpus.tracking_uri],
    )
    followed: list[Export] = []
    monkeypatch.setattr(step, "try_to_follow", lambda store, url, settings, warn: followed.append(settings))
    output = command(monkeypatch, capsys, *words(documented), *where, "--qdrant-url", "http://here")
    assert followed[0].keep >= 2, "no champion's collection is deleted"
    assert output.startswith("champion 3 answers, with the index of champion 1:")
    assert "MLflow: champion is version" in output
    champion = current(promoted_corpus.store)
    assert (
        first is not None
        and champion is not None
        and aliases(promoted_corpus)["previous"] == first.index.digest
    )
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    away = [*where[:2], "--tracking-uri", "http://127.0.0.1:9", "--qdrant-url", "http://here", "--to", "2"]
    output = command(monkeypatch, capsys, "rollback", *away)
    assert "warning: MLflow at http://127.0.0.1:9" in output and "the rollback holds" in output
    assert len(followed) == 2
    command(monkeypatch, capsys, "rollback", *where)
    line = command(monkeypatch, capsys, "rollback", *where, status=2)
    assert line == "error: champion 1 is the first: there is none to go back to\n"
    assert "has no champion 9; it has: 1, 2, 3" in command(
        monkeypatch, capsys, "rollback", "--to", "9", *where, status=2
    )
    nowhere = [*where[:2], "--tracking-uri", f"sqlite:///{promoted_corpus.folder}/none.db", "--to", "2"]
    output = command(monkeypatch, capsys, "rollback", *nowhere)
    assert "warning: there is no MLflow database" in output and "the rollback holds" in output
    assert not (promoted_corpus.folder / "none.db").exists()
