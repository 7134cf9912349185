"""The explorer's routes, asked over HTTP."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

import multiview
from multiview.cli.lookup import Lookup
from multiview.serving.follow import Generation, Generations
from multiview.serving.named_indexes import NamedIndexes
from multiview.serving.search_service import Serving
from tests.fixtures.answering_server import answering, of_champion, of_one
from tests.fixtures.crowned import index_record, promote

QUESTION = "Where was Tesla born?"


@pytest.fixture(scope="module")
def crowned(indexes, tmp_path_factory):
    copy = indexes.copy(tmp_path_factory.mktemp("explored") / "store")
    promote(copy, "camvr")
    promote(copy, "mvr")
    return copy


@pytest.fixture(scope="module")
def client(crowned):
    with answering(of_champion(crowned)) as client:
        yield client


def test_the_page_is_one_file_that_may_load_nothing_and_run_nothing_else(client):
    sent = client.get("/")
    assert sent.status_code == 200 and sent.headers["content-type"] == "text/html; charset=utf-8"
    policy = dict(part.split(" ", 1) for part in sent.headers["content-security-policy"].split("; "))
    for kind in ("script", "style"):
        (text,) = re.findall(f"<{kind}>(.*?)</{kind}>", sent.text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert policy[f"{kind}-src"] == f"'sha256-{digest}'"
    assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
    assert policy["connect-src"] == "'self'"
    assert "innerHTML" not in sent.text and "style=" not in sent.text
    references = re.findall(r"""(?:src|href)="([^"]*)""", sent.text)
    assert references == ["data:,"]


def test_a_request_may_name_an_index(client, crowned):
    for name, system, number in ((None, "mvr", 2), ("champion", "mvr", 2), (index_record(crowned, "dpr").key, "dpr", None), (crowned.index("camvr"), "camvr", None)):  # fmt: skip
        found = client.search(QUESTION, k=3, index=name)
        (alone,) = multiview.load(crowned.index(system)).search([QUESTION], k=3)
        assert (found["index"], found["champion"]) == (crowned.index(system), number)
        assert [(hit["id"], hit["score"]) for hit in found["answers"][0]["hits"]] == [
            (hit.id, hit.score) for hit in alone
        ]
    key = index_record(crowned, "camvr").key
    views = client.get(f"/passages/p1?index={key}").json()["views"]
    assert [view["snippet"] for view in views] != [
        view["snippet"] for view in client.get("/passages/p1").json()["views"]
    ]
    assert "there is no index /etc/index/passwd" in client.refused(
        404, {"questions": ["?"], "index": "/etc/index/passwd"}
    )


def test_an_unknown_index_is_named_without_a_path_or_an_option_of_the_server(crowned):
    """Where one index was named and there is no champion: a lookup by MLflow's ids would fail with the database's path."""
    generations = Generations(Generation(multiview.load(crowned.index("camvr"))))
    others = NamedIndexes(generations, crowned.store, Lookup(crowned.store.url, None).index, 2)
    with answering(Serving(generations, named_indexes=others)) as client:
        sent = client.get("/passages/p1?index=zz")
        assert sent.status_code == 404
        message = sent.json()["error"]["message"]
        assert message.startswith("there is no index zz: name a key that GET /indexes lists")
        assert crowned.store.url not in message and "mlflow" not in message and "--" not in message
        listed = [each["name"] for each in client.get("/indexes").json()["indexes"]]
        assert index_record(crowned, "camvr").key in listed
        assert all(client.get(f"/passages/p1?index={name}").status_code == 200 for name in listed)


def test_a_server_of_one_index_answers_from_it_alone(crowned):
    retriever = multiview.load(crowned.index("camvr"))
    with answering(of_one(retriever)) as client:
        assert client.search(QUESTION, index=index_record(crowned, "camvr").key)["index"] == retriever.address
        for other in ("champion", index_record(crowned, "mvr").key):
            key = index_record(crowned, "camvr").key
            assert client.refused(404, {"questions": ["?"], "index": other}) == (
                f"there is no index {other}: this server answers from one index, {key}"
            )
        found = client.get("/indexes").json()
        assert (found["index"], found["champion"], found["indexes"]) == (retriever.address, None, [])


def test_what_may_be_named_is_listed(client, crowned):
    found = client.get("/indexes").json()
    assert (found["index"], found["champion"]) == (crowned.index("mvr"), 2)
    assert (found["passages"], found["architecture"], found["most_passages"]) == (32, "mvr", 100)
    assert found["columns"] == ["id", "title", "url", "day"]
    assert [each["roles"] for each in found["indexes"][:2]] == [["champion 2"], ["champion 1"]]
    for each in found["indexes"]:
        assert client.search(QUESTION, index=each["name"])["index"].endswith(each["name"])
