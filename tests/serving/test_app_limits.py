"""A server with more requests than it can answer, with questions that nobody may read in a log, and with a log of them."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

import multiview
from multiview.serving import retriever as retriever_module
from multiview.serving.batching import Batcher, Search
from multiview.serving.limits import Limits
from multiview.serving.question_log import QuestionLog
from multiview.serving.retriever import Retriever
from tests.fixtures.answering_server import Client, answering, of_one, wait_for


class Slow(Retriever):
    """Answers once it may."""

    may: threading.Event

    def search(self, questions, k=10, *, explain=False, where=None):
        self.may.wait()
        return super().search(questions, k, explain=explain, where=where)

    def satisfying(self, where):
        self.may.wait()
        return super().satisfying(where)


@pytest.fixture
def slow(indexes):
    retriever = multiview.load(indexes.index("camvr"))
    retriever.__class__ = Slow
    assert isinstance(retriever, Slow)
    retriever.may = threading.Event()
    yield retriever
    retriever.may.set()


def test_more_requests_than_may_wait_are_told_to_come_again(slow):
    limits = Limits(max_waiting=3)
    with answering(of_one(slow, limits=limits)) as client, ThreadPoolExecutor(4) as pool:
        first = pool.submit(client.search, "first?")
        wait_for(lambda: client.metric("multiview_batch_questions_count") == 1)
        others = [pool.submit(client.search, f"{number}?", where=where) for number, where in enumerate([None, "url is null", "url is null"])]  # fmt: skip
        wait_for(lambda: client.metric("multiview_waiting_requests") == 3)
        refused = client.post("/search", {"questions": ["one more?"]})
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
        slow.may.set()
        assert all(each.result()["answers"] for each in [first, *others])
        assert client.search("one more?")


def test_a_batch_has_no_more_questions_than_are_searched_together_or_one_larger_request(loaded):
    asked, sizes = [["1?"], ["2?", "3?"], ["4?", "5?"], ["6?"], ["7?", "8?", "9?", "10?"]], []

    async def ask() -> list:
        batcher = Batcher(questions=3, waiting=8, report_batch=sizes.append)
        running = asyncio.create_task(batcher.run())
        found = await asyncio.gather(*(batcher.search(loaded, each, Search(k=2)) for each in asked))
        running.cancel()
        return found

    assert asyncio.run(ask()) == [loaded.search(each, k=2) for each in asked]
    assert sizes == [3, 3, 4]


def test_a_request_that_takes_too_long_is_answered_and_leaves_the_queue(slow):
    limits = Limits(timeout=0.2)
    with answering(of_one(slow, limits=limits)) as client:
        assert "took too long" in client.refused(504, {"questions": ["first?"]})
        assert "took too long" in client.refused(504, {"questions": ["second?"]})
        assert client.metric("multiview_waiting_requests") == 0
        slow.may.set()
        wait_for(lambda: client.post("/search", {"questions": ["third?"]}).status_code == 200)


def sent_and_closed(client: Client, length: int, body: bytes) -> None:
    """Sends a search that announces a body of some length, and closes the connection."""
    address = urlsplit(client.url)
    with socket.create_connection((address.hostname, address.port), 60) as sent:
        head = b"POST /search HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        sent.sendall(head % length + body)
        time.sleep(0.05)


@pytest.mark.parametrize("more", [{}, {"where": "url is null"}])
def test_requests_of_clients_that_have_gone_leave_the_queue(slow, caplog, more):
    body = json.dumps({"questions": ["gone?"], **more}).encode()
    gone = 'multiview_requests_total{route="/search",status="499"}'
    with answering(of_one(slow)) as client, ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.search, "first?")
        wait_for(lambda: client.metric("multiview_batch_questions_count") == 1)
        for _ in range(5):
            sent_and_closed(client, len(body), body)
        wait_for(lambda: client.metric(gone) == 5)
        assert client.metric("multiview_waiting_requests") == 0
        sent_and_closed(client, len(body) + 1, body)
        wait_for(lambda: client.metric(gone) == 6)
        slow.may.set()
        assert first.result()["answers"]
        assert client.search("last?")["answers"]
        assert client.metric("multiview_batch_questions_count") == 2
    assert not caplog.records


class Gated(Slow):
    """Reads conditions at once, and searches once it may."""

    def satisfying(self, where):
        return Retriever.satisfying(self, where)


def test_a_condition_is_evaluated_once_however_many_wait(indexes, monkeypatch):
    read = []
    satisfying = retriever_module.satisfying
    monkeypatch.setattr(retriever_module, "CONDITIONS_KEPT", 1)
    monkeypatch.setattr(
        retriever_module, "satisfying", lambda rows, text: read.append(text) or satisfying(rows, text)
    )
    gated = multiview.load(indexes.index("camvr"))
    conditions = [f'id != "p{number}"' for number in range(4)]
    alone = [gated.search(["Tesla?"], where=condition)[0] for condition in conditions]
    gated.among("true")  # replaces the condition that is kept
    read.clear()
    gated.__class__ = Gated
    assert isinstance(gated, Gated)
    gated.may = threading.Event()
    with answering(of_one(gated)) as client, ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(client.search, "Tesla?", where=condition) for condition in conditions]
        wait_for(lambda: len(read) == 4)
        gated.may.set()
        for answer, hits in zip(asked, alone, strict=True):
            found = answer.result()["answers"][0]["hits"]
            assert [hit["id"] for hit in found] == [hit.id for hit in hits]
    assert sorted(read) == conditions


def test_nothing_of_a_question_is_in_the_log(failing, capfd):
    planted = failing.PLANTED
    with answering(of_one(failing)) as client:
        body = {"questions": [planted]}
        assert client.refused(500, body) == "the server failed; its log says where"
        client.refused(422, {"questions": [planted], "where": f"title == {planted!r} and"})
        client.refused(422, {"questions": [planted], "k": planted})
        client.refused(422, {"questions": planted})
        client.refused(404, {"query": planted}, "/v1/vector_stores/none/search")
        assert client.get(f"/search?question={planted}").status_code == 405
        assert client.get(f"/{planted}").status_code == 404
        assert "zebra" not in client.get("/metrics").text
        with ThreadPoolExecutor(8) as pool:  # in a batch with others, which are answered
            statuses = list(pool.map(lambda number: client.post("/search", {"questions": [planted if number == 3 else "Tesla?"]}).status_code, range(8)))  # fmt: skip
        assert statuses == [200, 200, 200, 500, 200, 200, 200, 200]
    printed = "".join(capfd.readouterr())
    assert "/search: RuntimeError (conftest.py:" in printed
    assert not re.search("zebra|xyzzy", printed, re.I)


def test_questions_are_logged_where_that_is_asked_for(loaded, tmp_path):
    file = tmp_path / "questions.jsonl"
    with answering(of_one(loaded, question_log=QuestionLog(file))) as client:
        first = client.search("Tesla?", "Ü\u2028?", k=2)
        client.search("Rome?", where="url is null")
    logged = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [(each["question"], each["where"]) for each in logged] == [
        ("Tesla?", None),
        ("Ü\u2028?", None),
        ("Rome?", "url is null"),
    ]
    for line, found in zip(logged, first["answers"], strict=False):
        assert [(hit["id"], hit["score"]) for hit in line["hits"]] == [
            (hit["id"], hit["score"]) for hit in found["hits"]
        ]
        assert (line["index"], line["champion"]) == (loaded.address, None)
