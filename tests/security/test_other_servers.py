"""What is asked of servers other than the store's, as asked_servers.md lists it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient, models

from multiview import tracking
from multiview.artifacts.champions import address_of, champion_of
from multiview.artifacts.store import LocalStore, Store
from multiview.config.data import LanguageModel
from multiview.data.passages import Passage
from multiview.data.reading.files import open_stream
from multiview.data.reading.sources import expand_source, fingerprints
from multiview.export.qdrant import ALIAS, follow_champion, load_index
from multiview.generation.ask_questions import Questioner
from multiview.generation.make_questions import QuestionSnippet
from multiview.steps import webhook
from tests.fixtures.changing_corpus import ChangingCorpus
from tests.fixtures.chat_server import chat_server
from tests.fixtures.faulty_proxy import faulty_proxy
from tests.fixtures.hub_server import Hub, hub_serving
from tests.fixtures.planted_secrets import always, said
from tests.fixtures.project import ROOT
from tests.fixtures.reported_run import ReportedRun
from tests.fixtures.servers import mlflow_server, new_database
from tests.fixtures.tiny import tiny_bert

HEADER = "| who | asks | for |"
SHIPS = "every step with MLflow, `multiview sync`"
FINDS = "a command that is given a run"
BASE = "whatever reads `model.base` or `generation.model` by its name"
READS = "`split` and whatever else reads a source"
FOLLOWS = "`follow-champion`, `multiview export qdrant`"
ASKS = "`ask-questions`"
NOTIFIES = "`promote`, the last pod of a run"


def by_method(asked: Iterable[str]) -> str:
    """Requests as the table has them: each method with its routes."""
    routes: dict[str, set[str]] = {}
    for request in asked:
        method, _, path = request.partition(" ")
        routes.setdefault(method, set()).add(path)
    return "; ".join(
        f"{method} {', '.join(f'`{each}`' for each in sorted(routes[method]))}" for method in sorted(routes)
    )


def mlflow_route(request: str) -> str:
    """A request to MLflow without what is asked for."""
    method, _, path = request.partition(" ")
    path = path.partition("?")[0].removeprefix("/api/2.0/")
    path = re.sub(r"^(mlflow-artifacts/artifacts)/.*", r"\1/…", path)
    return f"{method} {re.sub('/(m-)?[0-9a-f]{32}', '/ID', path)}"


def hub_route(request: str) -> str:
    """A request to the hub without the model's name, its commit and its file."""
    path = request.partition("?")[0].replace("team/bert", "MODEL")
    return re.sub(r"/(resolve|tree|revision)/.*", r"/\1/…", path)


class Recorded:
    """A Qdrant client, and the names of what is asked of it."""

    def __init__(self, client: QdrantClient) -> None:
        self._client, self.asked = client, set[str]()

    def __getattr__(self, name: str) -> Any:
        self.asked.add(name)
        return getattr(self._client, name)


def asked_of_mlflow(folder: Path) -> dict[str, str]:
    words = ["server", "--backend-store-uri", new_database(folder)]
    words += ["--artifacts-destination", str(folder / "artifacts")]
    with mlflow_server(words, folder) as address, faulty_proxy(address) as proxy:
        reported = ReportedRun(folder / "store", proxy.url)
        reported.report_all()
        assert tracking.ship(reported.store, reported.run.id, proxy.url)
        shipped = by_method(map(mlflow_route, proxy.asked))
        proxy.reset(lambda number, method, path: "none")
        tracking.find_run(proxy.url, reported.run.id)
        return {SHIPS: shipped, FINDS: by_method(map(mlflow_route, proxy.asked))}


def asked_of_the_hub(folder: Path) -> str:
    code = (
        "from multiview.model.base_model.checkpoint import base_fingerprint, staged_base\n"
        "base_fingerprint('team/bert')\nwith staged_base('team/bert'): pass"
    )
    with hub_serving(Hub({"team/bert": tiny_bert(folder / "bert")})) as hub, faulty_proxy(hub.url) as proxy:
        status, printed = said(code, {"HF_ENDPOINT": proxy.url, "HF_HOME": str(folder)}, home=folder)
        assert status == 0, printed
        return by_method(map(hub_route, proxy.asked))


def asked_of_qdrant(store: Store) -> str:
    """Where another index was loaded before, and the champion's has a point too many."""
    plain = QdrantClient(":memory:")
    vectors = models.VectorParams(size=2, distance=models.Distance.DOT)
    plain.create_collection(f"{ALIAS}-{'0' * 16}", vectors)
    client: Any = Recorded(plain)
    loaded = load_index(client, address_of(store, champion_of(store)))
    (point,), _ = plain.scroll(loaded.name, limit=1, with_vectors=True)
    vector: Any = point.vector
    plain.upsert(loaded.name, [models.PointStruct(id=7, vector=vector, payload={})])
    follow_champion(store, client, keep=0)
    follow_champion(store, client, keep=0)
    assert [each.name for each in plain.get_collections().collections] == [loaded.name]
    return ", ".join(f"`{name}`" for name in sorted(client.asked))


def asked_of_a_website(folder: Path, website: str) -> str:
    (folder / "c.jsonl").write_text('{"id": "a", "text": "x"}\n')
    with faulty_proxy(website) as proxy:
        (file,) = expand_source(f"{proxy.url}/c.jsonl", "corpus")
        assert fingerprints([file])
        with open_stream(file) as stream:
            assert stream.read()
        return by_method(f"{each.partition(' ')[0]} the address" for each in proxy.asked).replace("`", "")


def asked_of_a_language_model(folder: Path) -> str:
    with chat_server() as chat, faulty_proxy(chat.url) as proxy:
        llm = LanguageModel(model="m", base_url=f"{proxy.url}/v1")
        questioner = Questioner(llm, LocalStore(folder / "asked"))
        asyncio.run(questioner.questions([QuestionSnippet(Passage("p", "", "One.", (4,)), 0, "One.")]))
        return by_method(proxy.asked)


def asked_of_a_webhook() -> str:
    with always(204, b"") as server:
        webhook.post(f"{server.url}/hook", {"text": "x"})
        return by_method(f"{head.partition(' ')[0]} the address" for head in server.heads).replace("`", "")


def test_the_page_lists_what_is_asked_of_other_servers(
    promoted_corpus: ChangingCorpus, website: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TOKEN", "USERNAME", "PASSWORD"):
        monkeypatch.delenv(f"MLFLOW_TRACKING_{name}", raising=False)
    (tmp_path / "mlflow").mkdir()
    found = [(who, "MLflow", asked) for who, asked in asked_of_mlflow(tmp_path / "mlflow").items()]
    found += [
        (BASE, "the Hugging Face hub", asked_of_the_hub(tmp_path)),
        (READS, "the web server of an `http(s)://` source", asked_of_a_website(tmp_path, website)),
        (FOLLOWS, "Qdrant", asked_of_qdrant(promoted_corpus.store)),
        (ASKS, "`make_questions.llm.base_url`", asked_of_a_language_model(tmp_path)),
        (NOTIFIES, "`notify.url`", asked_of_a_webhook()),
    ]
    rows = [f"| {' | '.join(row)} |" for row in found]
    page = (ROOT / "tests" / "security" / "asked_servers.md").read_text(encoding="utf-8")
    table = page.partition(f"{HEADER}\n")[2].splitlines()[1:]
    assert table == rows, "asked_servers.md needs:\n" + "\n".join(rows)
