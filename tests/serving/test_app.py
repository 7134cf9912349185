"""The server, asked over HTTP on a port of its own."""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import shutil
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
import requests
from fastapi import FastAPI
from fastapi.testclient import TestClient

import multiview
from multiview.artifacts.champions import champion_of, rollback
from multiview.errors import InputError
from multiview.serving.follow import Follower, Generation, Generations
from multiview.serving.hits import answer_fields, as_json
from multiview.serving.limits import Limits
from multiview.serving.retriever import Retriever
from multiview.serving.search_service import Serving
from tests.fixtures.answering_server import answering, wait_for
from tests.fixtures.champions import read_again
from tests.fixtures.crowned import index_record, promote


@pytest.fixture
def crowned(indexes, tmp_path):
    copy = indexes.copy(tmp_path / "store")
    promote(copy, "camvr")
    return copy


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

    with answering(Serving(Generations(Generation(retriever)))) as client:
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
    follower = Follower(crowned.store)
    with answering(Serving(follower.generations, follower)) as client:
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
    "{}": "body.questions: Field required",
    '{"questions": []}': "body.questions: List should have at least 1 item",
    '{"questions": "Tesla?"}': "body.questions: Input should be a valid list",
    '{"questions": [" "]}': "body.questions.0: the question is blank",
    '{"questions": ["\\ud800?"]}': "body.questions.0: Input should be a valid string",
    '{"questions": ["?"], "k": 0}': "body.k: Input should be greater than or equal to 1",
    '{"questions": ["?"], "k": 101}': "body.k: Input should be less than or equal to 100",
    '{"questions": ["?"], "k": "3"}': "body.k: Input should be a valid integer",
    '{"questions": ["?"], "k": true}': "body.k: Input should be a valid integer",
    '{"questions": ["?"], "explain": 1}': "body.explain: Input should be a valid boolean",
    '{"questions": ["?"], "K": 3}': "body.K: Extra inputs are not permitted",
    '{"questions": ["?"], "where": "ulr is null"}': "where, character 1: there is no column 'ulr'; did you mean url?",
    '{"questions": ["?"], "where": "day > 3"}': "where, character 7: column day is of type date32[day]: compare it with a value",
    json.dumps({"questions": ["?"], "where": " " * 2001}): "body.where: String should have at most 2000 characters",
    json.dumps({"questions": ["?"] * 65}): "body.questions: List should have at most 64 items",
    json.dumps({"questions": ["?" * 2001]}): "body.questions.0: String should have at most 2000 characters",
}  # fmt: skip


@pytest.mark.parametrize("body", REFUSED, ids=lambda body: body[:60])
def test_a_request_that_is_not_understood_is_refused_in_a_line(client, body):
    sent = requests.post(
        f"{client.url}/search", data=body, headers={"content-type": "application/json"}, timeout=60
    )
    assert sent.status_code == 422
    assert REFUSED[body] in sent.json()["error"]["message"]


UNREADABLE = {
    "no text": b"\xff{",
    "nested": b"[" * 20_000 + b"]" * 20_000,
    "long number": b'{"questions": ["?"], "k": ' + b"1" * 6000 + b"}",
    "compressed": gzip.compress(b'{"questions": ["?"]}'),
}


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
def test_a_body_that_no_parser_reads_is_refused_with_what_a_body_is(client, body):
    sent = requests.post(
        f"{client.url}/search", data=body, headers={"content-type": "application/json"}, timeout=60
    )
    message = "There was an error parsing the body"
    assert (sent.status_code, sent.json()) == (400, {"error": {"message": message}})


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded"])
def test_a_body_of_another_type_is_told_the_header_that_is_missing(client, kind):
    headers = {"content-type": kind} if kind else {}
    sent = requests.post(f"{client.url}/search", data=b'{"questions": ["?"]}', headers=headers, timeout=60)
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


def test_a_body_that_never_ends_is_refused_in_time(loaded):
    with answering(Serving(Generations(Generation(loaded)), limits=Limits(timeout=0.2))) as client:
        address = urlsplit(client.url)
        with socket.create_connection((address.hostname, address.port), 60) as sent:
            sent.sendall(b"POST /search HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n")
            sent.sendall(b"Content-Length: 100\r\n\r\n{")
            assert sent.recv(100).startswith(b"HTTP/1.1 408")


def test_a_body_that_trickles_is_refused_in_time(loaded):
    with answering(Serving(Generations(Generation(loaded)), limits=Limits(timeout=0.5))) as client:
        address = urlsplit(client.url)
        with socket.create_connection((address.hostname, address.port), 0.1) as sent:
            sent.sendall(b"POST /search HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n")
            sent.sendall(b"Content-Length: 100\r\n\r\n")
            answer = b""
            for _ in range(50):
                sent.sendall(b" ")
                with contextlib.suppress(TimeoutError):
                    answer = sent.recv(100)
                    break
            assert answer.startswith(b"HTTP/1.1 408")


def test_a_passage_is_answered_in_time(loaded, monkeypatch):
    monkeypatch.setattr(type(loaded), "passage", lambda *_: time.sleep(1))
    with answering(Serving(Generations(Generation(loaded)), limits=Limits(timeout=0.2))) as client:
        assert client.get("/passages/p1").status_code == 504


def test_only_who_has_a_key_is_answered(loaded):
    with answering(Serving(Generations(Generation(loaded)), keys=["one", "two-2"])) as client:
        for headers in (
            {},
            {"Authorization": "Bearer two"},
            {"X-API-Key": "on"},
            {"Authorization": "Basic one"},
        ):
            client.headers = headers
            assert "an API key is needed" in client.refused(401, {"questions": ["Tesla?"]})
            assert client.get("/passages/p1").status_code == 401
            assert client.get("/readyz").status_code == client.get("/metrics").status_code == 200
        for headers in (
            {"Authorization": "Bearer one"},
            {"X-API-Key": "one"},
            {"x-api-key": "two-2"},
        ):
            client.headers = headers
            assert client.search("Tesla?")


def test_promotions_and_rollbacks_lose_no_request(crowned, caplog):
    alone = {system: multiview.load(crowned.index(system)) for system in ("camvr", "mvr")}
    answers = {system: expected(retriever, ["Tesla?"], k=3) for system, retriever in alone.items()}
    serving_of = {1: "camvr", 2: "mvr", 3: "camvr", 4: "mvr"}
    follower = Follower(crowned.store)
    serving = Serving(follower.generations, follower, poll_seconds=0.05)
    with answering(serving) as client, ThreadPoolExecutor(50) as pool:
        stop = threading.Event()

        def ask() -> list[int]:
            seen = []
            while not stop.is_set():
                found = client.search("Tesla?", k=3)
                assert found["answers"] == answers[serving_of[found["champion"]]]
                seen.append(found["champion"])
            return seen

        asking = [pool.submit(ask) for _ in range(50)]
        try:
            for number, change in enumerate((lambda: promote(crowned, "mvr"), lambda: rollback(crowned.store), lambda: promote(crowned, "mvr")), 2):  # fmt: skip
                change()
                wait_for(lambda number=number: client.get("/readyz").json()["champion"] == number)
                assert client.search("Tesla?", k=3)["champion"] == number
        finally:
            stop.set()
        seen = [each.result() for each in asking]
        assert all(numbers == sorted(numbers) for numbers in seen), "nobody goes back to an earlier champion"
        assert {number for numbers in seen for number in numbers} == {1, 2, 3, 4}
        assert client.metric("multiview_champion_loads_total") == 3
        wait_for(lambda: client.metric("multiview_ending_generations") == 0)


def test_a_champion_that_cannot_be_loaded_is_told_and_the_old_one_goes_on(crowned, capfd):
    follower = Follower(crowned.store)
    views = crowned.files(index_record(crowned, "mvr")) / "views.f16"
    views.write_bytes(views.read_bytes()[:-1])
    with answering(Serving(follower.generations, follower, poll_seconds=0.05)) as client:
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
    assert capfd.readouterr().err.count("champion 2 could not be loaded") == 1


@pytest.mark.parametrize("id_", ["a", "a\n", "a\nb", "\r\n", "a/b/", "/", " a ", "é\u2028"])
def test_an_id_in_a_path_arrives_as_it_is(id_: str) -> None:
    """Where starlette's `path` would cut the line end at the end, and answer with another passage."""
    app = FastAPI()

    @app.get("/passages/{id:text}")
    def read(id: str) -> str:
        return id

    assert TestClient(app).get(f"/passages/{quote(id_, safe='')}").json() == id_
