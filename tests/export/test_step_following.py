"""An alias of Qdrant that follows the champion from refresh to rollback; Qdrant is its client's local mode."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from qdrant_client import QdrantClient

from multiview.artifacts.champions import Champion, address_of, champion_of, crown
from multiview.artifacts.store import LocalStore
from multiview.config import Export
from multiview.errors import InputError
from multiview.export import step
from multiview.export.qdrant import collection_name
from multiview.steps.events import WarningEvent, read_events
from pipelines import __main__ as pipelines
from tests.fixtures.bucket import free_port
from tests.fixtures.champions import champion
from tests.fixtures.changing_corpus import ChangingCorpus

URL = "http://qdrant.example.org:6333"
SETTINGS = {"export": {"qdrant_url": URL}}


class Server:
    """A Qdrant that can be away."""

    def __init__(self) -> None:
        self.client = QdrantClient(":memory:")
        self.away = False

    @contextlib.contextmanager
    def open_client(self, url: str) -> Iterator[QdrantClient]:
        assert url == URL
        if self.away:
            raise InputError(f"Qdrant at {url}: [Errno 111] Connection refused")
        yield self.client

    @property
    def aliases(self) -> dict[str, str]:
        return {each.alias_name: each.collection_name for each in self.client.get_aliases().aliases}


@pytest.fixture
def server(monkeypatch):
    server = Server()
    monkeypatch.setattr(step, "open_client", server.open_client)
    yield server
    server.client.close()


def collection(corpus: ChangingCorpus) -> tuple[Champion, dict[str, str]]:
    """The champion, and the aliases that a server should have."""
    champion = champion_of(corpus.store)
    return champion, {"multiview": collection_name(address_of(corpus.store, champion))}


def followed(corpus: ChangingCorpus, records) -> dict:
    return json.loads((corpus.files(records["follow-champion"]["followed"]) / "collection.json").read_text())


def warnings(corpus: ChangingCorpus, records) -> list[str]:
    events = read_events(corpus.store, records["follow-champion"]["followed"].data)
    return [event.text for event in events if isinstance(event, WarningEvent)]


def test_only_a_refresh_that_names_a_server_has_the_step(corpus):
    assert "follow-champion" not in map(str, corpus.plan().paths())
    assert "follow-champion" in map(str, corpus.plan(**SETTINGS).paths())


def test_the_alias_follows_promotion_and_rollback(corpus, server, monkeypatch, capsys):
    records = corpus.refresh(**SETTINGS)
    first, expected = collection(corpus)
    assert server.aliases == expected
    server.away = True
    again = corpus.refresh(**SETTINGS)["follow-champion"]["followed"]
    assert again == records["follow-champion"]["followed"], "it is found"
    server.away = False
    corpus.add("new-1")
    records = corpus.refresh(**SETTINGS)
    now, expected = collection(corpus)
    assert (now.number, server.aliases) == (2, expected)
    said = followed(corpus, records)
    assert (said["champion"], {said["alias"]: said["collection"]}) == (2, expected)
    monkeypatch.setenv("MULTIVIEW_QDRANT_URL", URL)
    words = ["rollback", "--store", corpus.store.url, "--tracking-uri", corpus.tracking_uri]
    pipelines.app(words, standalone_mode=False)
    back, expected = collection(corpus)
    assert back.index == first.index and server.aliases == expected
    assert f"Qdrant: multiview is collection {expected['multiview']}" in capsys.readouterr().out


def test_the_password_of_a_qdrant_that_is_away_is_in_no_warning(corpus):
    lines: list[str] = []
    url = f"http://planted-user:planted-password@127.0.0.1:{free_port()}/?api_key=planted"
    assert step.try_to_follow(corpus.store, url, Export(), lines.append) is None
    (line,) = lines
    assert "multiview export qdrant --url 'http" in line and "planted" not in line


def test_a_qdrant_that_is_away_fails_no_refresh_and_is_followed_by_the_next(corpus, server, monkeypatch):
    server.away = True
    corpus.add("new-1")
    records = corpus.refresh(**SETTINGS)
    assert corpus.decision(records) == "promote" and champion_of(corpus.store).number == 2
    assert followed(corpus, records)["collection"] is None
    command = f"multiview export qdrant --url {URL} --store {corpus.store.url} --alias multiview --keep 2"
    assert warnings(corpus, records) == [
        f"Qdrant at {URL}: [Errno 111] Connection refused; alias multiview does not follow the champion until this succeeds: {command}"
    ]
    server.away = False
    with monkeypatch.context() as patch:
        patch.setattr(step, "follow_champion", lambda *given: 1 // 0)
        (warning,) = warnings(corpus, corpus.refresh(**SETTINGS))
    assert warning.startswith("ZeroDivisionError: "), "nor does an unforeseen error"
    assert corpus.decision(corpus.refresh(**SETTINGS)) == "keep"
    assert server.aliases == collection(corpus)[1]


def test_a_qdrant_that_is_away_fails_no_rollback(promoted_corpus, server, monkeypatch, capsys):
    server.away = True
    monkeypatch.setenv("MULTIVIEW_QDRANT_URL", URL)
    words = ["rollback", "--store", promoted_corpus.store.url, "--tracking-uri", promoted_corpus.tracking_uri]
    pipelines.app(words, standalone_mode=False)
    assert champion_of(promoted_corpus.store).number == 3
    assert "\nwarning: Qdrant at http://qdrant.example.org:6333: " in capsys.readouterr().out


def test_an_alias_that_was_set_for_an_earlier_champion_is_set_again(tmp_path):
    """As after a rollback that no Qdrant was named to: the step's inputs are those of an earlier refresh."""
    store = LocalStore(tmp_path)
    crown(store, champion(store, 1))
    record: Any = SimpleNamespace(facts={"champion": 1, "collection": "multiview-of-1"})
    assert step.still_follows(store, record)
    crown(store, champion(store, 2))
    assert not step.still_follows(store, record)
