"""The server, asked over HTTP on a port of its own."""

from __future__ import annotations

import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jsonschema
import pytest
import requests

import multiview
from multiview.artifacts.champions import rollback
from multiview.serving.answers import answer, as_json
from multiview.serving.app import Serving
from multiview.serving.follow import Follower, Generation, Generations
from multiview.serving.limits import Limits
from multiview.serving.question_log import QuestionLog, read_question_log
from multiview.serving.retriever import Retriever
from tests.fixtures.answering_server import answering
from tests.fixtures.crowned import index_record, promote

PLANTED = "Whose zebra drinks lamp oil at Xyzzy?"


@pytest.fixture(scope="module")
def loaded(indexes) -> Retriever:
    return multiview.load(indexes.index("camvr"))


@pytest.fixture(scope="module")
def client(loaded):
    with answering(Serving(Generations(Generation(loaded)))) as client:
        yield client


@pytest.fixture
def crowned(indexes, tmp_path):
    copy = indexes.copy(tmp_path / "store")
    promote(copy, "camvr")
    return copy


def expected(retriever: Retriever, questions: list[str], **more: Any) -> list[dict[str, Any]]:
    """What `multiview search --json` prints."""
    exact = retriever.exact or "where" in more
    found = retriever.search(questions, **more)
    return [json.loads(as_json(answer(*each, exact))) for each in zip(questions, found, strict=True)]


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
        "problem": "",
    }


REFUSED = {
    '{"questions": [': "body.15: not JSON from this character of the body on",
    "[]": "body: Input should be a valid dictionary",
    "{}": "body.questions: Field required",
    '{"questions": []}': "body.questions: List should have at least 1 item",
    '{"questions": "Tesla?"}': "body.questions: Input should be a valid list",
    '{"questions": [" "]}': "body.questions.0: a question of white space alone",
    '{"questions": ["\\ud800?"]}': "body.questions.0: Input should be a valid string",
    '{"questions": ["?"], "k": 0}': "body.k: Input should be greater than or equal to 1",
    '{"questions": ["?"], "k": 101}': "body.k: Input should be less than or equal to 100",
    '{"questions": ["?"], "K": 3}': "body.K: Extra inputs are not permitted",
    '{"questions": ["?"], "where": "ulr is null"}': "where, character 1: there is no column 'ulr'; did you mean url?",
    '{"questions": ["?"], "where": "day > 3"}': "where, character 7: column day is of type date32[day]: compare it with a day",
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


def test_a_body_that_is_no_text_is_refused(client):
    sent = requests.post(
        f"{client.url}/search", data=b"\xff{", headers={"content-type": "application/json"}, timeout=60
    )
    assert (sent.status_code, list(sent.json())) == (400, ["error"])


def test_a_body_that_is_too_long_is_refused_as_it_arrives(client):
    longest = Limits().body_bytes
    assert "longer than" in client.refused(413, {"questions": ["?"], "padding": "x" * longest})


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


class Slow(Retriever):
    """Answers once it may."""

    may: threading.Event

    def search(self, questions, k=10, *, explain=False, where=None):
        self.may.wait()
        return super().search(questions, k, explain=explain, where=where)

    def among(self, where):
        self.may.wait()
        return super().among(where)


@pytest.fixture
def slow(indexes):
    retriever = multiview.load(indexes.index("camvr"))
    retriever.__class__ = Slow
    assert isinstance(retriever, Slow)
    retriever.may = threading.Event()
    yield retriever
    retriever.may.set()


def wait_for(condition):
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never came")


def test_more_requests_than_may_wait_are_told_to_come_again(slow):
    limits = Limits(waiting=3)
    with (
        answering(Serving(Generations(Generation(slow)), limits=limits)) as client,
        ThreadPoolExecutor(4) as pool,
    ):
        first = pool.submit(client.search, "first?")
        wait_for(lambda: client.metric("multiview_batch_questions_count") == 1)
        others = [pool.submit(client.search, f"{number}?", where=where) for number, where in enumerate([None, "url is null", "url is null"])]  # fmt: skip
        wait_for(lambda: client.metric("multiview_waiting_requests") == 3)
        refused = client.post("/search", {"questions": ["one more?"]})
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
        slow.may.set()
        assert all(each.result()["answers"] for each in [first, *others])
        assert client.search("one more?")


def test_a_request_that_takes_too_long_is_answered_and_leaves_the_queue(slow):
    limits = Limits(seconds=0.2)
    with answering(Serving(Generations(Generation(slow)), limits=limits)) as client:
        assert "time for a request" in client.refused(504, {"questions": ["first?"]})
        assert "time for a request" in client.refused(504, {"questions": ["second?"]})
        assert client.metric("multiview_waiting_requests") == 0
        slow.may.set()
        wait_for(lambda: client.post("/search", {"questions": ["third?"]}).status_code == 200)


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


class Failing(Retriever):
    """Fails with an error that repeats the question."""

    def search(self, questions, k=10, *, explain=False, where=None):
        if PLANTED in questions:
            raise RuntimeError(f"cannot encode {questions[0]}")
        return super().search(questions, k, explain=explain, where=where)


def test_nothing_of_a_question_is_in_the_log(indexes, capfd):
    retriever = multiview.load(indexes.index("camvr"))
    retriever.__class__ = Failing
    with answering(Serving(Generations(Generation(retriever)))) as client:
        body = {"questions": [PLANTED]}
        assert client.refused(500, body) == "the server failed; its log says where"
        client.refused(422, {"questions": [PLANTED], "where": f"title == {PLANTED!r} and"})
        client.refused(422, {"questions": [PLANTED], "k": PLANTED})
        client.refused(422, {"questions": PLANTED})
        client.refused(404, {"query": PLANTED}, "/v1/vector_stores/none/search")
        assert client.get(f"/search?question={PLANTED}").status_code == 405
        assert client.get(f"/{PLANTED}").status_code == 404
        assert "zebra" not in client.get("/metrics").text
        with ThreadPoolExecutor(8) as pool:  # in a batch with others, which are answered
            statuses = list(pool.map(lambda number: client.post("/search", {"questions": [PLANTED if number == 3 else "Tesla?"]}).status_code, range(8)))  # fmt: skip
        assert statuses == [200, 200, 200, 500, 200, 200, 200, 200]
    printed = "".join(capfd.readouterr())
    assert "/search: RuntimeError (test_app.py:" in printed
    assert not re.search("zebra|xyzzy", printed, re.I)


def test_questions_are_logged_where_that_is_asked_for(loaded, tmp_path):
    file = tmp_path / "questions.jsonl"
    with answering(Serving(Generations(Generation(loaded)), question_log=QuestionLog(file))) as client:
        first = client.search("Tesla?", "Ü\u2028?", k=2)
        client.search("Rome?", where="url is null")
    logged = list(read_question_log(file))
    assert [(each.question, each.where) for each in logged] == [
        ("Tesla?", None),
        ("Ü\u2028?", None),
        ("Rome?", "url is null"),
    ]
    for line, found in zip(logged, first["answers"], strict=False):
        assert [(hit.id, hit.score) for hit in line.hits] == [
            (hit["id"], hit["score"]) for hit in found["hits"]
        ]
        assert (line.index, line.champion) == (loaded.address, None)


# --- OpenAPI and OpenAI ----------------------------------------------------------------------


def test_the_server_keeps_what_its_openapi_promises(client, loaded):
    """Each example of a body is answered with what the schema of the answer says."""
    api = client.get("/openapi.json").json()
    answered = 0
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            if method != "post":
                continue
            (content,) = operation["requestBody"]["content"].values()
            schema = api["components"]["schemas"][content["schema"]["$ref"].rpartition("/")[2]]
            for example in schema["examples"]:
                jsonschema.validate(example, {**schema, "components": api["components"]})
                key = loaded.address.rpartition("/")[2]
                sent = client.post(path.replace("{vector_store_id}", key), example)
                assert sent.status_code == 200, sent.text
                (shown,) = operation["responses"]["200"]["content"].values()
                jsonschema.validate(sent.json(), {**shown["schema"], "components": api["components"]})
                answered += 1
            assert {"401", "404", "413", "422", "429", "504"} <= set(operation["responses"])
    assert answered == 3
    for path in ("/readyz", "/passages/p1"):
        (shown,) = api["paths"][path.replace("p1", "{id}")]["get"]["responses"]["200"]["content"].values()
        jsonschema.validate(client.get(path).json(), {**shown["schema"], "components": api["components"]})
    assert api["paths"]["/search"]["post"]["security"]


def test_a_search_in_openai_s_shape(client, loaded):
    key = loaded.address.rpartition("/")[2]
    path = f"/v1/vector_stores/{key}/search"
    filters = {"type": "or", "filters": [{"type": "ne", "key": "url", "value": "x"}, {"type": "in", "key": "id", "value": ["p2"]}]}  # fmt: skip
    found = client.post(path, {"query": "Tesla?", "max_num_results": 3, "filters": filters}).json()
    (hits,) = loaded.search(["Tesla?"], k=3)
    assert (found["object"], found["search_query"]) == ("vector_store.search_results.page", ["Tesla?"])
    assert (found["has_more"], found["next_page"]) == (False, None)
    for one, hit in zip(found["data"], hits, strict=True):
        attributes = {name: str(value) for name, value in hit.columns.items() if value is not None}
        assert one == {
            "file_id": hit.id,
            "filename": hit.title or hit.id,
            "score": hit.score,
            "attributes": attributes,
            "content": [{"type": "text", "text": hit.text}],
        }
    several = client.post(path, {"query": ["Tesla?", "Rome?"], "max_num_results": 4}).json()
    both = {}
    for hits in loaded.search(["Tesla?", "Rome?"], k=4):
        for hit in hits:
            both[hit.id] = max(both.get(hit.id, hit.score), hit.score)
    best = sorted(both.items(), key=lambda each: (-each[1], each[0]))[:4]
    assert [(one["file_id"], one["score"]) for one in several["data"]] == best
    least = {"score_threshold": best[1][1]}
    some = client.post(path, {"query": ["Tesla?", "Rome?"], "ranking_options": least}).json()
    assert [one["file_id"] for one in some["data"]] == [id for id, _ in best[:2]]
    assert f"there are: {key}" in client.refused(404, {"query": "?"}, "/v1/vector_stores/champion/search")
    assert "takes a list" in client.refused(
        422, {"query": "?", "filters": {"type": "in", "key": "id", "value": "x"}}, path
    )
    assert "no column" in client.refused(
        422, {"query": "?", "filters": {"type": "eq", "key": "x", "value": 1}}, path
    )


def test_openai_s_client_searches_it(client, loaded):
    openai = pytest.importorskip("openai")
    asking = openai.OpenAI(base_url=f"{client.url}/v1", api_key="unused", max_retries=0)
    key = loaded.address.rpartition("/")[2]
    found = asking.vector_stores.search(
        key, query="Tesla?", max_num_results=3, filters={"type": "lt", "key": "day", "value": "2020-01-20"}
    )
    (hits,) = loaded.search(["Tesla?"], k=3, where='day < "2020-01-20"')
    assert [(one.file_id, one.score, one.content[0].text) for one in found] == [
        (hit.id, hit.score, hit.text) for hit in hits
    ]
    with pytest.raises(openai.NotFoundError, match="there is no such vector store"):
        asking.vector_stores.search("none", query="Tesla?")
