"""`multiview gc`: a forecast without `--delete`, the same removals with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from multiview import environment, tracking
from tests.fixtures.changing_corpus import ChangingCorpus
from tests.fixtures.documented import words
from tests.fixtures.evaluated_run import RUN, EvaluatedRun
from tests.fixtures.inprocess import multiview_command
from tests.fixtures.servers import new_database


@pytest.mark.documented("multiview gc")
def test_gc_says_what_would_go_and_then_takes_it(
    documented_lines: list[str], promoted_corpus: ChangingCorpus, monkeypatch: Any, capsys: Any
) -> None:
    ask, take = map(words, documented_lines)
    where = ["--store", promoted_corpus.store.url, "--tracking-uri", promoted_corpus.tracking_uri]
    where += ["--days", "0", "--champions", "1"]
    before = promoted_corpus.store.files("")
    forecast = multiview_command(monkeypatch, capsys, *ask, *where)
    assert "would remove" in forecast and forecast.endswith(": --delete does it\n")
    assert promoted_corpus.store.files("") == before
    done = multiview_command(monkeypatch, capsys, *take, *where)
    assert done.splitlines()[:-1] == forecast.splitlines()[:-1] and "removed " in done
    assert multiview_command(monkeypatch, capsys, "gc", *where) == "nothing to collect\n"
    elsewhere = ["--store", promoted_corpus.store.url, "--tracking-uri", "sqlite:///none.db"]
    promoted_corpus.store.create("runs/shipped/mlflow/server/parent", b"0" * 32)
    line = multiview_command(monkeypatch, capsys, "gc", "--delete", *elsewhere, status=2)
    assert "no alias keeps an index, but runs were shipped to another MLflow: name the one" in line
    said = multiview_command(monkeypatch, capsys, "gc", *elsewhere)
    assert said.startswith("there is no MLflow database at sqlite:///none.db, so no alias keeps an index")
    assert "\nnothing to collect\n" in said


def test_gc_asks_for_the_mlflow_that_runs_were_shipped_to(
    copied_run: EvaluatedRun, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    """Besides the store's own: an alias there keeps an index too."""
    monkeypatch.delenv(environment.MLFLOW_TRACKING_URI, raising=False)
    store, own = copied_run.store, f"sqlite:///{copied_run.store.root}/mlflow.db"
    collect = ["gc", "--delete", "--store", store.url]
    tracking.ship(store, RUN, own)
    multiview_command(monkeypatch, capsys, *collect)
    (claim,) = (path for path in store.files(f"runs/{RUN}/mlflow") if path.endswith("/parent"))
    for run in ("before", "later"):  # `mlflow gc` removed them
        store.create(claim.replace(RUN, run), b"0" * 32)
    (link := store.root.with_name("link")).symlink_to(store.root)
    multiview_command(monkeypatch, capsys, "gc", "--delete", "--store", str(link))
    store.replace(claim, b"0" * 32)
    multiview_command(monkeypatch, capsys, *collect)
    (team_folder := tmp_path / "team").mkdir()
    team = new_database(team_folder)
    tracking.ship(store, RUN, team)
    line = multiview_command(monkeypatch, capsys, *collect, status=2)
    assert f"{own} is asked which indexes aliases keep, but runs were shipped to another MLflow" in line
    assert line.removeprefix("error: ") in multiview_command(
        monkeypatch, capsys, *(word for word in collect if word != "--delete")
    )
    other = new_database(tmp_path)
    line = multiview_command(monkeypatch, capsys, *collect, "--tracking-uri", other, status=2)
    assert f"{other} is asked" in line, "as MLFLOW_TRACKING_URI may name another project's"
    for uri in (own, team):
        multiview_command(monkeypatch, capsys, *collect, "--tracking-uri", uri)
