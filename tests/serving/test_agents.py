"""Agents ask a real server by the SDK's own client."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
import requests
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent, ToolAnnotations

from multiview.errors import InputError
from multiview.serving.follow import Generation, Generations
from multiview.serving.limits import Limits
from multiview.serving.named_indexes import NamedIndexes
from multiview.serving.question_log import QuestionLog
from multiview.serving.search_service import Serving
from tests.fixtures.answering_server import answering, of_one
from tests.fixtures.system_indexes import SYSTEMS

VERSION = "2026-07-28"
HEADERS = {"content-type": "application/json", "accept": "application/json", "mcp-protocol-version": VERSION}
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
}
"""What a request without a handshake begins with, for those that the SDK's client would not send."""
MODES = ("auto", "legacy")
"""Without the handshake of earlier versions of the protocol, and with it."""


@pytest.fixture(scope="module")
def serving(loaded, indexes):
    def find(name: str) -> str:
        if name not in SYSTEMS:
            raise InputError("there is no such index")
        return indexes.index(name)

    generations = Generations(Generation(loaded))
    named = NamedIndexes(generations, indexes.store, find, 1)
    return Serving(generations, named_indexes=named, limits=Limits(max_k=20), agents=True)


@pytest.fixture(scope="module")
def client(serving):
    with answering(serving) as client:
        yield client


@asynccontextmanager
async def agent(client, mode="auto"):
    http = httpx2.AsyncClient(headers=client.headers, timeout=60)
    async with (
        http,
        Client(streamable_http_client(f"{client.url}/mcp", http_client=http), mode=mode) as agent,
    ):
        yield agent


def call(client, tool: str, arguments: dict[str, Any], mode="auto") -> CallToolResult:
    async def run() -> CallToolResult:
        async with agent(client, mode) as agent_:
            return await agent_.call_tool(tool, arguments)

    return asyncio.run(run())


def text(found: CallToolResult) -> str:
    (content,) = found.content
    assert isinstance(content, TextContent)
    return content.text


def line(found: CallToolResult) -> str:
    """The error of a tool: a line."""
    assert found.is_error and found.structured_content is None
    assert "\n" not in text(found) and "Traceback" not in text(found)
    return text(found)


@pytest.mark.parametrize("mode", MODES)
def test_tools_are_read_only_and_say_what_they_take(client, loaded, mode):
    async def run():
        async with agent(client, mode) as agent_:
            return (await agent_.list_tools()).tools

    search, passage = asyncio.run(run())
    assert (search.name, passage.name) == ("search", "passage")
    for tool in (search, passage):
        assert isinstance(tool.annotations, ToolAnnotations) and tool.annotations.read_only_hint
    assert search.input_schema["properties"].keys() == {"question", "k", "explain", "where", "index"}
    assert search.input_schema["properties"]["k"]["maximum"] == 20
    assert search.input_schema["properties"]["where"]["description"].endswith("Columns: id, title, url, day")


IDS = ("p3", "none", "", ".", "..", "../healthz", "a/b", "p3?x", "%70%33", "p3\n", "ä" * 500)
INDEXES = ({}, {"index": "mvr"}, {"index": "none"}, {"index": "../x&é"})
SEARCHES = ({}, {"k": 3, "where": "url is null"}, {"explain": True}, {"index": "mvr"})


@pytest.mark.parametrize("mode", MODES)
def test_searches_and_passages_are_the_routes(client, indexes, mode):
    async def run() -> list[CallToolResult]:
        async with agent(client, mode) as agent_:
            return [await agent_.call_tool(tool, given) for tool, given in calls]

    searches = [{"question": indexes.questions[n], **more} for n, more in enumerate(SEARCHES)]
    passages = [{"id": id, **index} for id in IDS for index in INDEXES]
    calls = [*(("search", given) for given in searches), *(("passage", given) for given in passages)]
    found = asyncio.run(run())
    for given, answer in zip(searches, found, strict=False):
        assert answer.structured_content == client.search(given.pop("question"), **given)
        assert json.loads(text(answer)) == answer.structured_content
    for given, answer in zip(passages, found[len(searches) :], strict=True):
        path = quote(given.pop("id"), safe="").replace(".", "%2E")
        sent = requests.get(f"{client.url}/passages/{path}", params=given, timeout=60)
        if sent.ok:
            assert answer.structured_content == sent.json()
        else:
            assert line(answer) == sent.json()["error"]["message"]


REFUSED = [
    {"question": " "},
    {"question": ["Tesla?"]},
    {"question": "?" * 2001},
    {"question": "\ud800?"},
    {"question": "?", "k": 21},
    {"question": "?", "k": "3"},
    {"question": "?", "where": "ulr is null"},
    {"question": "?", "where": {"url": None}},
    {"question": "?", "index": "/etc/passwd"},
    {"question": "?", "index": 3},
]


@pytest.mark.parametrize("arguments", REFUSED, ids=lambda arguments: str(arguments)[:60])
def test_what_the_route_refuses_is_the_tool_s_error_in_the_same_line(client, arguments):
    body = {**arguments, "questions": [arguments["question"]]}
    del body["question"]
    sent = requests.post(
        f"{client.url}/search", json.dumps(body), headers={"content-type": "application/json"}, timeout=60
    )
    assert sent.status_code in (404, 422)
    params = {"name": "search", "arguments": arguments, "_meta": META}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    called = requests.post(f"{client.url}/mcp", body, headers=HEADERS | {"mcp-method": "tools/call", "mcp-name": "search"}, timeout=60)  # fmt: skip
    result = CallToolResult.model_validate(called.json()["result"])
    assert line(result) == sent.json()["error"]["message"].replace(
        "body.questions.0", "question"
    ).removeprefix("body.")


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("search", {}, "question: Input should be a valid string"),
        ("search", {"questions": ["?"]}, "search has no such argument; it has: question, k, explain, where, index"),
        ("passage", {}, "id: Input should be a string of at most 5,000"),
        ("passage", {"id": 3}, "id: Input should be a string of at most 5,000"),
        ("passage", {"id": "p" * 100_000}, "id: Input should be a string of at most 5,000"),
        ("passage", {"id": "p3", "k": 3}, "passage has no such argument; it has: id, index"),
        ("remove", {}, "there is no such tool; there are: search, passage"),
    ],
)  # fmt: skip
def test_other_calls_are_refused_in_a_line(client, tool, arguments, message):
    assert message in line(call(client, tool, arguments))


@pytest.mark.parametrize(
    "headers", [{}, {"X-API-Key": "on"}, {"Authorization": "Bearer one"}, {"X-API-Key": "one"}]
)
def test_an_agent_needs_a_key_where_everybody_does(serving, headers):
    with answering(replace(serving, keys=["one"])) as client:
        client.headers = headers
        if "one" in "".join(headers.values()):
            assert (
                call(client, "passage", {"id": "p3"}).structured_content == client.get("/passages/p3").json()
            )
        else:
            client.headers = HEADERS | headers
            assert "an API key is needed" in client.refused(401, {}, "/mcp")


def test_what_no_agent_sends_is_refused(client):
    def status(body: bytes, **headers: str) -> int:
        return requests.post(f"{client.url}/mcp", body, headers=HEADERS | headers, timeout=60).status_code

    for version in (VERSION, "2025-11-25"):
        for body in (b"", b"{", b"\xff", b"[]", b"[" * 20_000, b'{"method": "tools/call"}', b"9" * 6000):
            assert status(body, **{"mcp-protocol-version": version}) == 400
        assert status(b" " * Limits().body_bytes + b"{}", **{"mcp-protocol-version": version}) == 413
    assert status(b"{}", origin="http://127.0.0.1") == 403
    assert requests.get(f"{client.url}/mcp", headers=HEADERS, timeout=60).status_code == 405


def test_questions_of_agents_are_counted_and_logged_as_all_are_and_in_no_other_log(failing, tmp_path, capfd):
    file, planted = tmp_path / "questions.jsonl", failing.PLANTED
    with answering(of_one(failing, question_log=QuestionLog(file), agents=True)) as client:
        assert line(call(client, "search", {"question": planted})) == "the server failed; its log says where"
        for mode in MODES:
            line(call(client, "search", {"question": planted, "k": planted}, mode))
            line(call(client, planted, {planted: planted}, mode))
            assert not call(client, "search", {"question": "Tesla?"}, mode).is_error
        assert client.metric('multiview_requests_total{route="/search",status="200"}') == 2
    assert [json.loads(each)["question"] for each in file.read_text().splitlines()] == ["Tesla?"] * 2
    printed = "".join(capfd.readouterr())
    assert "/search: RuntimeError (conftest.py:" in printed and "Traceback" not in printed
    assert not re.search("zebra|xyzzy", printed, re.I)
