"""Requests that `multiview serve` refuses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import requests

KEY = "the-key-of-the-tests"
"""The only key of the server that is asked."""


@dataclass(frozen=True)
class Asked:
    """A request that is refused with a status of its own and one line."""

    status: int
    says: tuple[str, ...]
    path: str = "/search"
    method: str = "POST"
    body: Any = None
    """Sent as JSON; bytes as they are."""
    headers: Mapping[str, str] = field(default_factory=lambda: {"X-API-Key": KEY})

    def send(self, url: str) -> requests.Response:
        headers = {"Content-Type": "application/json", **self.headers}
        data = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        body = data if self.method == "POST" else None
        return requests.request(self.method, f"{url}{self.path}", data=body, headers=headers, timeout=60)


def search(says: str, /, **body: Any) -> Asked:
    return Asked(422, (says,), body={"questions": ["Who?"]} | body)


def where(condition: str, *says: str) -> Asked:
    return Asked(422, ("where, character ", *says), body={"questions": ["Who?"], "where": condition})


def raw(status: int, body: bytes, *says: str, content_type: str = "application/json") -> Asked:
    return Asked(status, says, body=body, headers={"X-API-Key": KEY, "Content-Type": content_type})


def got(status: int, path: str, *says: str) -> Asked:
    return Asked(status, says, path, "GET")


def vector_store(says: str, /, status: int = 422, path: str = "{key}", **body: Any) -> Asked:
    return Asked(status, (says,), f"/v1/vector_stores/{path}/search", body={"query": "Who?"} | body)


CASES = {
    # --- keys, paths, methods
    "no key": Asked(401, ("an API key is needed", "Bearer"), body={"questions": ["Who?"]}, headers={}),
    "another key": Asked(401, ("an API key is needed",), headers={"X-API-Key": "another"}),
    "an empty key": Asked(401, ("an API key is needed",), headers={"X-API-Key": ""}),
    "a key as Basic": Asked(401, ("an API key is needed",), headers={"Authorization": f"Basic {KEY}"}),
    "a key in the address": Asked(401, ("an API key is needed",), f"/search?api_key={KEY}", headers={}),
    "a key of 60,000 letters": Asked(401, ("an API key is needed",), headers={"X-API-Key": "k" * 60_000}),
    "a key of other bytes": Asked(401, ("an API key is needed",), headers={"X-API-Key": "\xff\xfe"}),
    "passages without a key": Asked(401, ("an API key is needed",), "/passages/p0", "GET", headers={}),
    "no such path": got(404, "/nothing", "Not Found"),
    "a path beyond the root": got(404, "/..%2f..%2fetc/passwd", "Not Found"),
    "a search by GET": got(405, "/search", "Method Not Allowed"),
    "a passage by DELETE": Asked(405, ("Method Not Allowed",), "/passages/p0", "DELETE"),
    # --- bodies
    "no body": raw(422, b"", "body"),
    "no JSON": raw(422, b"{", "invalid JSON"),
    "a list": raw(422, b"[]", "body"),
    "a NUL byte": raw(422, b"\0", "invalid JSON"),
    "a body that is not UTF-8": raw(400, b'{"questions": ["\xff"]}', "body"),
    "UTF-16": raw(422, '{"questions": ["Who?"], "k": 0}'.encode("utf-16"), "k"),
    "a form": raw(422, b"questions=Who", "body", content_type="application/x-www-form-urlencoded"),
    "JSON as text": raw(422, b'{"questions": ["Who?"]}', "body", content_type="text/plain"),
    "a body of 2 MB": raw(413, b'{"questions": ["' + b"a" * 2_000_000 + b'"]}', "longer than"),
    "deep JSON": raw(400, b'{"questions": ' + b"[" * 100_000, "body"),
    "deep JSON that ends": raw(400, b'{"questions": ' + b"[" * 250_000 + b"]" * 250_000 + b"}", "body"),
    "half a character": raw(422, b'{"questions": ["\\ud83d"]}', "body"),
    "a number of 5,000 digits": raw(400, b'{"questions": ["a"], "k": ' + b"9" * 5000 + b"}", "body"),
    # --- searches
    "no questions": Asked(422, ("body.questions: Field required",), body={}),
    "an empty list": search("body.questions: List should have at least 1 item", questions=[]),
    "65 questions": search("at most 64 items", questions=["Who?"] * 65),
    "a question that is a number": search("body.questions.0: Input should be a valid string", questions=[5]),
    "a text for questions": search("body.questions: Input should be a valid list", questions="Who?"),
    "a question of white space": search("the question is blank", questions=[" \n\t"]),
    "a question too long": search("at most 2000 characters", questions=["a" * 2001]),
    "a k of nothing": search("body.k: Input should be greater than or equal to 1", k=0),
    "a negative k": search("body.k: Input should be greater than or equal to 1", k=-1),
    "a k too large": search("body.k: Input should be less than or equal to 100", k=101),
    "a k of words": search("body.k: Input should be a valid integer", k="ten"),
    "half a k": search("body.k: Input should be a valid integer", k=1.5),
    "an unknown name": search("body.quesitons: Extra inputs are not permitted", quesitons=["Who?"]),
    "explain of words": search("body.explain: Input should be a valid boolean", explain="much"),
    "an index of no name": Asked(404, ("index",), body={"questions": ["Who?"], "index": "../../etc/passwd"}),
    "an index too long": search("body.index: String should have at most 500 characters", index="a" * 501),
    # --- conditions
    "a condition of nothing": where(""),
    "a condition cut short": where("day >="),
    "a condition of SQL": where("day = '2020'; drop table passages", "compare by =="),
    "a call": where("__import__('os').system('true')"),
    "an attribute": where("url.__class__ == 'a'"),
    "a lambda": where("(lambda: true)()"),
    "an unknown column": where("ulr == 'a'", "there is no column 'ulr'", "url"),
    "a column of their own": where("text == 'a'", "there is no column 'text'"),
    "two columns": where("url == day", "a string, a number, true, false or null is expected here"),
    "two values": where("1 == 1", "a comparison is of a column with a value"),
    "a day of words": where("day >= 'soon'", "day"),
    "a number for a text": where("url == 5", "url"),
    "null that is smaller": where("url < null", "use == or !="),
    "is a value": where("url is 'a'", "use =="),
    "a text as a condition": where("url", "compare it with a value"),
    "a condition too long": search("body.where: String should have at most 2000", where="url == 'a' or " * 200 + "url == 'a'"),
    "300 parentheses": where("(" * 300 + "url == 'a'" + ")" * 300),
    "a condition with a NUL": where("url == 'a\0'"),
    "an integer of 1,500 digits": where(f"url == {'9' * 1500}", "url"),
    "a condition of two ends": where("url == 'a'\n\nurl == 'b'"),
    "a condition of half a character": raw(422, b'{"questions": ["a"], "where": "url == \'\\\\ud83d\'"}', "where"),
    # --- passages and the explorer
    "no such passage": got(404, "/passages/p999", "the corpus has no passage with this id"),
    "a passage of slashes": got(404, "/passages/a/../b/%2e%2e/c", "the corpus has no passage with this id"),
    "a passage of 10,000 letters": got(404, f"/passages/{'a' * 10_000}", "the corpus has no passage with this id"),
    "a passage with a NUL": got(404, "/passages/%00", "the corpus has no passage with this id"),
    "a passage of other bytes": got(404, "/passages/%ff", "the corpus has no passage with this id"),
    "a passage of another index": got(404, "/passages/p0?index=nothing", "index"),
    # --- vector stores
    "no such vector store": vector_store("there is no such vector store; there are:", 404, path="vs_1"),
    "a vector store without a query": vector_store("body.query", query=None),
    "a filter of an unknown kind": vector_store("body.filters.type", filters={"type": "like", "key": "url", "value": "a"}),
    "a filter without a key": vector_store("filters: eq has no key", filters={"type": "eq", "value": "a"}),
    "a filter of a list": vector_store("filters: eq takes one value", filters={"type": "eq", "key": "url", "value": ["a"]}),
    "a filter of one value": vector_store("filters: in takes a list", filters={"type": "in", "key": "url", "value": "a"}),
    "a filter without a value": vector_store("filters: ne has no value", filters={"type": "ne", "key": "url"}),
    "a filter that compares and joins": vector_store("eq compares, and takes no filters", filters={"type": "eq", "key": "url", "value": "a", "filters": [{"type": "eq", "key": "url", "value": "a"}]}),
    "a filter that joins and compares": vector_store("and joins filters, and takes neither", filters={"type": "and", "key": "url", "filters": [{"type": "eq", "key": "url", "value": "a"}]}),
    "a filter that joins nothing": vector_store("filters: and joins no filter", filters={"type": "and"}),
    "a filter of a quote": vector_store("there is no column", filters={"type": "eq", "key": "'] or columns['url", "value": "a"}),
    "a filter of null": vector_store("use == or !=", filters={"type": "gt", "key": "url", "value": None}),
    "deep filters": Asked(422, ("body.filters", "maximum validation depth"), "/v1/vector_stores/{key}/search", body=b'{"query": "a", "filters": ' + b'{"type": "and", "filters": [' * 300 + b'{"type": "eq", "key": "url", "value": "a"}' + b"]}" * 300 + b"}"),
    "results too many": vector_store("body.max_num_results", max_num_results=51),
    "a threshold of words": vector_store("body.ranking_options", ranking_options={"score_threshold": "much"}),
}  # fmt: skip
