"""The commands around champions, what they print, and what MLflow and a listener are told."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from multiview import tracking
from multiview.artifacts.champions import champion_file, current, rollback
from multiview.artifacts.store import LocalStore
from multiview.cli import app
from multiview.steps.runs import Run, write_run
from tests.fixtures.changing_corpus import ChangingCorpus
from tests.fixtures.documented import words
from tests.fixtures.inprocess import command, run_plan
from tests.fixtures.servers import answering


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> ChangingCorpus:
    """A store with two champions."""
    corpus = ChangingCorpus.make(tmp_path_factory.mktemp("refresh"))
    corpus.refresh(refresh={"model": corpus.with_model()})
    corpus.add("new-1")
    corpus.refresh()
    return corpus


@pytest.fixture
def corpus(begun: ChangingCorpus, tmp_path: Path) -> ChangingCorpus:
    folder = tmp_path / "copy"
    shutil.copytree(begun.folder, folder)
    for number in (1, 2):
        file = folder / "store" / champion_file(number)
        file.write_text(file.read_text().replace(str(begun.folder), str(folder)))
    source = {"corpus": {**begun.settings["corpus"], "source": str(folder / "now.parquet")}}
    return ChangingCorpus(
        folder, LocalStore(folder / "store"), begun.base, [*begun.rows], {**begun.settings, **source}
    )


@pytest.fixture
def listener() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """An address, and what it was told."""
    told: list[dict[str, Any]] = []

    class Listener(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with answering(ThreadingHTTPServer(("127.0.0.1", 0), Listener)) as server:
        yield f"http://127.0.0.1:{server.server_port}/", told


def uri(corpus: ChangingCorpus) -> str:
    return f"sqlite:///{corpus.folder}/mlflow.db"


def ship(corpus: ChangingCorpus, **changes: Any) -> str:
    """Refresh as a run that MLflow is told of; its id."""
    plan = corpus.plan(**changes)
    run = f"refresh-{len(corpus.store.folders('runs'))}"
    write_run(
        corpus.store, Run(id=run, pipeline="refresh", config={}, steps=[str(path) for path in plan.paths()])
    )
    run_plan(plan, corpus.store, run)
    tracking.ship(corpus.store, run, uri(corpus))
    return run


def aliases(corpus: ChangingCorpus) -> dict[str, str]:
    """The digest of the index that each alias stands for."""
    client = MlflowClient(uri(corpus))
    (model,) = client.search_registered_models()
    return {
        alias: client.get_model_version(model.name, version).tags["sha256"]
        for alias, version in model.aliases.items()
    }


def test_both_outcomes_are_sent(corpus: ChangingCorpus, listener: tuple[str, list[dict[str, Any]]]) -> None:
    address, told = listener
    corpus.add("new-2")
    corpus.refresh(notify={"url": address})
    corpus.rows = corpus.rows[: len(corpus.rows) // 2]
    corpus.refresh(notify={"url": address})
    champion = current(corpus.store)
    assert champion is not None and champion.number == 3
    assert [one["status"] for one in told] == ["refresh promoted", "refresh refused"]
    assert told[0]["text"].startswith("refresh promoted: ") and "champion: 3, of " in told[0]["text"]
    assert told[1]["text"].startswith("refresh refused: ")
    assert [one["champion"]["number"] for one in told] == [3, 3]
    assert told[1]["failed"][0]["check"] == "largest_shrinkage"
    assert told[0]["champion"]["index"]["digest"] == champion.index.digest


def test_who_cannot_be_told_stops_nothing(corpus: ChangingCorpus) -> None:
    corpus.add("new-2")
    answers_501 = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    with answering(answers_501) as server:
        corpus.refresh(notify={"url": f"http://127.0.0.1:{server.server_port}/"})
    champion = current(corpus.store)
    assert champion is not None and champion.number == 3


def test_aliases_follow_the_champions_and_are_repaired(corpus: ChangingCorpus) -> None:
    corpus.add("new-2")
    ship(corpus)
    champion = current(corpus.store)
    assert champion is not None and champion.number == 3
    before = aliases(corpus)
    assert before["champion"] == champion.index.digest and set(before) == {"champion", "previous"}
    corpus.rows = corpus.rows[: len(corpus.rows) // 2]
    refused = ship(corpus)
    after = aliases(corpus)
    assert {name: after[name] for name in before} == before and after["challenger"] not in before.values()
    client = MlflowClient(uri(corpus))
    (model,) = client.search_registered_models()
    client.set_registered_model_alias(
        model.name, "champion", after_version(client, model.name, after["challenger"])
    )
    client.delete_registered_model_alias(model.name, "challenger")
    client.delete_registered_model_alias(model.name, "previous")
    tracking.sync(corpus.store, uri(corpus))
    assert aliases(corpus) == after
    rollback(corpus.store)
    tracking.sync(corpus.store, uri(corpus))
    assert set(aliases(corpus)) == {"champion", "previous"}, "it was measured against another champion"
    experiment = client.get_experiment_by_name("multiview")
    assert experiment is not None
    (parent,) = client.search_runs([experiment.experiment_id], "tags.decision = 'refuse'")
    assert parent.data.tags["multiview.run"] == refused
    assert parent.data.tags["mlflow.note.content"].count("largest_shrinkage") == 2


def after_version(client: MlflowClient, name: str, digest: str) -> str:
    """The version of an index."""
    (found,) = client.search_model_versions(f"name = '{name}' and tags.sha256 = '{digest}'")
    return str(found.version)


@pytest.mark.documented("python -m pipelines rollback")
def test_rollback_says_what_answers(
    documented: str, corpus: ChangingCorpus, monkeypatch: Any, capsys: Any
) -> None:
    first, where = current(corpus.store), ["--store", corpus.store.url, "--tracking-uri", uri(corpus)]
    output = command(monkeypatch, capsys, *words(documented), *where)
    assert output.startswith("champion 3 answers, with the index of champion 1:")
    assert "MLflow: champion is version" in output
    champion = current(corpus.store)
    assert first is not None and champion is not None and aliases(corpus)["previous"] == first.index.digest
    told = command(monkeypatch, capsys, "rollback", *where, status=2)
    assert told == "error: champion 1 is the first: there is none to go back to\n"
    assert "has no champion 9; it has: 1, 2, 3" in command(
        monkeypatch, capsys, "rollback", "--to", "9", *where, status=2
    )


def say(monkeypatch: Any, capsys: Any, *words: str) -> str:
    monkeypatch.setattr(sys, "argv", ["multiview", *words])
    with pytest.raises(SystemExit) as ended:
        app.run_app(app.app)
    printed = capsys.readouterr()
    assert ended.value.code == 0, printed
    return printed.out


def test_search_asks_the_champion(corpus: ChangingCorpus, monkeypatch: Any, capsys: Any) -> None:
    champion = current(corpus.store)
    assert champion is not None
    for named in ([], ["--index", "champion"]):
        monkeypatch.setattr(sys, "argv", ["multiview"])
        found = say(
            monkeypatch,
            capsys,
            "search",
            "Who ran past the castle?",
            "--json",
            *named,
            "--store",
            corpus.store.url,
        )
        assert json.loads(found)["hits"]


@pytest.mark.documented("multiview gc")
def test_gc_says_what_would_go_and_then_takes_it(
    documented_lines: list[str], corpus: ChangingCorpus, monkeypatch: Any, capsys: Any
) -> None:
    ask, take = map(words, documented_lines)
    where = ["--store", corpus.store.url, "--tracking-uri", uri(corpus), "--days", "0", "--champions", "1"]
    before = corpus.store.files("")
    forecast = say(monkeypatch, capsys, *ask, *where)
    assert "would remove" in forecast and forecast.endswith(": --delete does it\n")
    assert corpus.store.files("") == before
    done = say(monkeypatch, capsys, *take, *where)
    assert done.splitlines()[:-1] == forecast.splitlines()[:-1] and "removed " in done
    assert say(monkeypatch, capsys, "gc", *where) == "nothing to collect\n"
