"""The server, asked over HTTP on a port of its own."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
import requests
from fastapi import FastAPI
from fastapi.testclient import TestClient

import multiview
from multiview.artifacts.champions import champion_of
from multiview.errors import InputError
from multiview.serving.hits import answer_fields, as_json
from multiview.serving.limits import Limits
from multiview.serving.retriever import Retriever
from tests.fixtures.answering_server import answering, of_champion, of_one, wait_for
from tests.fixtures.champions import read_again
from tests.fixtures.crowned import index_record, promote


def expected(retriever: Retriever, questions: list[str], **more: Any) -> list[dict[str, Any]]:
    """What `multiview search --json` prints."""
    exact = retriever.exact or "where" in more
    found = retriever.search(questions, **more)
    return [json.loads(as_json(answer_fields(*each, exact))) for each in zip(questions, found, strict=True)]


@pytest.mark.parametrize(
    "more", [{}, {"k": 3}, {"explain": True}, {"where": "url is null", "k": 4}, {"where": 'id in ("p1")'}]
)
def test_a_search_equals_the_command_s_to_the_last_digit(client, loaded, indexes, more):
    found = client.search(*indexes.questions, **more)
    assert found["answers"] == expected(loaded, indexes.questions, **more)
    assert (found["index"], found["champion"]) == (loaded.address, None)


def test_questions_at_once_are_answered_as_alone(client, loaded, indexes):
    """Whatever batch they came into: other k, conditions and questions beside them."""
    asked = [
        (questions, more)
        for questions in (indexes.questions[:1], indexes.questions[1:4], ["Tesla?"], indexes.questions[::-1])
        for more in ({"k": 2}, {"k": 5}, {"k": 5, "explain": True}, {"k": 5, "where": "url is null"})
    ]
    alone = [expected(loaded, questions, **more) for questions, more in asked]
    before, questions_before = (
        client.metric("multiview_batch_questions_count"),
        client.metric("multiview_batch_questions_sum"),
    )
    with ThreadPoolExecutor(16) as pool:
        for _ in range(3):
            together = pool.map(lambda each: client.search(*each[0], **each[1])["answers"], asked)
            assert list(together) == alone
    assert client.metric("multiview_batch_questions_sum") - questions_before == 3 * sum(
        len(each[0]) for each in asked
    )
    assert client.metric("multiview_batch_questions_count") - before < 3 * len(asked), "some shared a batch"


def test_an_answer_says_whether_better_passages_may_be_missed(indexes):
    """As `search --json` does (tests/cli/test_search.py): a condition is answered exactly by any index."""
    with answering(of_one(multiview.load(indexes.index("pooled")))) as client:
        found = [client.search("Tesla?", **more)["answers"][0] for more in ({}, {"where": "true"})]
    assert [answer["exact"] for answer in found] == [False, True]


def test_a_passage_is_found_by_its_id(client, loaded):
    (hit,) = loaded.search(["Tesla?"], k=1, explain=True)[0]
    found = client.get(f"/passages/{hit.id}").json()
    assert (found["id"], found["title"], found["text"]) == (hit.id, hit.title, hit.text)
    assert found["columns"] == json.loads(json.dumps(hit.columns, default=str))
    views = [(view["view"], view["span"], view["snippet"]) for view in found["views"]]
    assert views == [(view.number, view.span and list(view.span), view.snippet) for view in hit.views]
    for id in ("none", "a/b", "%00", "ä" * 500):
        assert client.get(f"/passages/{id}").status_code == 404


def test_probes_say_what_answers(client, loaded):
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {
        "status": "ready",
        "index": loaded.address,
        "champion": None,
        "passages": len(loaded),
        "ranking": "",
        "problem": "",
        "freshness": "",
        "notice": "",
    }
    assert "corpus_age" not in client.get("/metrics").text


def test_a_server_whose_searches_fail_says_so(indexes, monkeypatch):
    retriever = multiview.load(indexes.index("camvr"))

    def fails(*_: object, **__: object) -> None:
        raise InputError("passages p: passages.parquet is missing")

    with answering(of_one(retriever)) as client:
        with monkeypatch.context() as patch:
            patch.setattr(retriever, "search", fails)
            assert client.post("/search", {"questions": ["Tesla?"]}).status_code == 500
            ready = client.get("/readyz")
            # Still ready: without traffic no search could succeed again.
            assert (ready.status_code, ready.json()["status"]) == (200, "ready")
            assert ready.json()["problem"] == "passages p: passages.parquet is missing"
        assert client.search("Tesla?")
        client.refused(422, {"questions": ["Tesla?"], "where": "none"})
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()["problem"]) == (200, "")


def test_how_old_the_champion_s_corpus_is_is_told_without_a_look_at_the_store(crowned):
    read_again(crowned.store, champion_of(crowned.store), hours=5, oldest=1e-6)
    serving = of_champion(crowned)
    follower = serving.follower
    assert follower is not None
    with answering(serving) as client:
        wait_for(lambda: follower.freshness)
        shutil.rmtree(crowned.store.root / "runs")
        age = client.metric("multiview_champion_corpus_age_seconds")
        assert follower.freshness and 0 < age <= time.time() - follower.freshness.read
        failed = client.metric('multiview_last_refresh_timestamp_seconds{outcome="failed"}')
        assert failed == pytest.approx(time.time() - 5 * 3600, abs=1000)
        state = client.get("/readyz").json()
        assert state["notice"].startswith(
            "the corpus is older than refresh.oldest=1e-06 hours: corpus read 20"
        )
        assert state["notice"].endswith(state["freshness"]) and state["problem"] == ""


REFUSED = {
    '{"questions": [': "body.15: invalid JSON at this character",
    "[]": "body: not a JSON object; a body is sent with the header Content-Type: application/json",
    '{"questions": ["?"], "k": "3"}': "body.k: Input should be a valid integer",
    '{"questions": ["?"], "k": true}': "body.k: Input should be a valid integer",
    '{"questions": ["?"], "explain": 1}': "body.explain: Input should be a valid boolean",
}
"""The rest is in tests/bad_input/requests.py."""


@pytest.mark.parametrize("body", REFUSED)
def test_a_request_that_is_not_understood_is_refused_in_a_line(client, body):
    sent = requests.post(
        f"{client.url}/search", data=body, headers={"content-type": "application/json"}, timeout=60
    )
    assert sent.status_code == 422
    assert REFUSED[body] in sent.json()["error"]["message"]


def test_a_body_without_a_type_is_told_the_header_that_is_missing(client):
    sent = requests.post(f"{client.url}/search", data=b'{"questions": ["?"]}', timeout=60)
    assert sent.status_code == 422
    assert "Content-Type: application/json" in sent.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz"])
def test_head_is_answered_as_get_without_a_body(client, path):
    sent = requests.head(f"{client.url}{path}", timeout=60)
    assert (sent.status_code, sent.content) == (200, b"")
    assert sent.headers["content-type"] == client.get(path).headers["content-type"]


def test_a_body_that_is_too_long_is_refused_as_it_arrives(client):
    longest = Limits().body_bytes
    assert "longer than" in client.refused(413, {"questions": ["?"], "padding": "x" * longest})


@pytest.mark.parametrize("more", [b"{", b" " * 50], ids=["never ends", "trickles"])
def test_a_body_that_does_not_come_is_refused_in_time(loaded, more):
    with answering(of_one(loaded, limits=Limits(timeout=0.5))) as client:
        address = urlsplit(client.url)
        with socket.create_connection((address.hostname, address.port), 0.1) as sent:
            sent.sendall(b"POST /search HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n")
            sent.sendall(b"Content-Length: 100\r\n\r\n")
            answer = b""
            for number in range(50):
                sent.sendall(more[number : number + 1])
                with contextlib.suppress(TimeoutError):
                    answer = sent.recv(100)
                    break
            assert answer.startswith(b"HTTP/1.1 408")


def test_a_passage_is_answered_in_time(loaded, monkeypatch):
    monkeypatch.setattr(type(loaded), "passage", lambda *_: time.sleep(1))
    with answering(of_one(loaded, limits=Limits(timeout=0.2))) as client:
        assert client.get("/passages/p1").status_code == 504


FREE = ("/", "/healthz", "/readyz", "/metrics", "/openapi.json")
"""What needs no key: it holds nothing of questions and passages."""


def test_only_who_has_a_key_is_answered(loaded):
    with answering(of_one(loaded, keys=["one", "two-2"])) as client:
        for wrong in ("", "on", "onetwo-2", "ONE", "two", "\xff"):
            for headers in (
                {"Authorization": f"Bearer {wrong}"},
                {"X-API-Key": wrong},
                {"Authorization": "Basic one"},
                {},
            ):
                client.headers = headers
                assert "an API key is needed" in client.refused(401, {"questions": ["Tesla?"]})
        assert client.get("/passages/p1").status_code == client.get("/indexes").status_code == 401
        assert {client.get(path).status_code for path in FREE} == {200}
        for headers in (
            {"Authorization": "Bearer one"},
            {"X-API-Key": "one"},
            {"x-api-key": "two-2"},
            {"Authorization": "Bearer wrong", "X-API-Key": "one"},
        ):
            client.headers = headers
            assert client.search("Tesla?")


def test_a_champion_that_cannot_be_loaded_is_told_and_the_old_one_goes_on(crowned, capfd):
    serving = of_champion(crowned, poll_seconds=0.05)
    views = crowned.files(index_record(crowned, "mvr")) / "views.f16"
    views.write_bytes(views.read_bytes()[:-1])
    with answering(serving) as client:
        promote(crowned, "mvr")
        wait_for(lambda: client.get("/readyz").json()["problem"])
        state = client.get("/readyz")
        assert state.status_code == 200 and state.json()["champion"] == 1
        assert re.match(
            r"champion 2 could not be loaded: .*views\.f16 has \d+ bytes", state.json()["problem"]
        )
        assert client.metric("multiview_champion_load_failures_total") == 1
        assert client.metric("multiview_champion_problem") == 1
        assert client.search("Tesla?")["champion"] == 1
        promote(crowned, "dpr")
        wait_for(lambda: client.search("Tesla?")["champion"] == 3)
        assert client.metric("multiview_champion_problem") == 0
        promote(crowned, "camvr")
        wait_for(lambda: client.search("Tesla?")["champion"] == 4)
        assert client.metric("multiview_champion_loads_total") == 2
        wait_for(lambda: client.metric("multiview_ending_generations") == 0)
    assert capfd.readouterr().err.count("champion 2 could not be loaded") == 1


@pytest.mark.parametrize("id_", ["a", "a\n", "a\nb", "\r\n", "a/b/", "/", " a ", "é\u2028"])
def test_an_id_in_a_path_arrives_as_it_is(id_: str) -> None:
    """Where starlette's `path` would cut the line end at the end, and answer with another passage."""
    app = FastAPI()

    @app.get("/passages/{id:text}")
    def read(id: str) -> str:
        return id

    assert TestClient(app).get(f"/passages/{quote(id_, safe='')}").json() == id_
