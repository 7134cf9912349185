"""What the server promises by OpenAPI, and its route in the shape of OpenAI's vector stores."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import jsonschema
import pytest
import requests

from multiview.serving import openai
from multiview.serving.hits import Hit, ScoredView


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
    for path in ("/readyz", "/indexes", "/passages/p1"):
        (shown,) = api["paths"][path.replace("p1", "{id}")]["get"]["responses"]["200"]["content"].values()
        jsonschema.validate(client.get(path).json(), {**shown["schema"], "components": api["components"]})
    assert api["paths"]["/search"]["post"]["security"]


def test_columns_of_other_types_are_text_in_openai_s_shape():
    columns = {
        "tags": ["Kunst", "été"],
        "at": {"day": date(2024, 5, 1)},
        "day": date(2024, 5, 1),
        "n": 1.5,
        "none": None,
    }
    hit = Hit("p", "", "text", 1.0, ScoredView(1, 1.0, None, None), columns)
    (result,) = openai.page(["?"], [[hit]], 1, None).data
    expected = {"tags": '["Kunst", "été"]', "at": '{"day": "2024-05-01"}', "day": "2024-05-01", "n": 1.5}
    assert result.attributes == expected


def test_a_score_threshold_of_0_is_none_where_scores_are_negative(client, loaded, monkeypatch):
    (hits,) = loaded.search(["Tesla?"], k=3)
    below = [replace(hit, score=-1.0 - number) for number, hit in enumerate(hits)]
    monkeypatch.setattr(type(loaded), "search", lambda *_, **__: [below])
    path = f"/v1/vector_stores/{loaded.address.rpartition('/')[2]}/search"
    for least, left in ((0, 3), (-1.5, 1), (-0.5, 0)):
        asked = {"query": "Tesla?", "ranking_options": {"score_threshold": least}}
        assert len(client.post(path, asked).json()["data"]) == left


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
    highest = {"score_threshold": both[best[0][0]] + 1}
    assert client.post(path, {"query": "Tesla?", "ranking_options": highest}).json()["data"] == []
    unlimited = {"query": "Tesla?", "ranking_options": {"score_threshold": 0}}
    assert len(client.post(path, unlimited).json()["data"]) == 10
    for number in ("NaN", "Infinity"):
        sent = f'{{"query": "?", "ranking_options": {{"score_threshold": {number}}}}}'
        headers = {"content-type": "application/json"}
        refused = requests.post(f"{client.url}{path}", data=sent, headers=headers, timeout=60)
        assert "finite" in refused.json()["error"]["message"] and refused.status_code == 422
    ids = {"type": "in", "key": "id", "value": ["p2"] * 5000}
    assert client.refused(422, {"query": "?", "filters": ids}, path).startswith("filters: at most 20,000")
    assert client.refused(422, {"query": "?", "filters": []}, path) == "body.filters: not a JSON object"
    assert f"there are: {key}" in client.refused(404, {"query": "?"}, "/v1/vector_stores/champion/search")
    assert "takes a list" in client.refused(
        422, {"query": "?", "filters": {"type": "in", "key": "id", "value": "x"}}, path
    )
    many = {"type": "in", "key": "id", "value": [f"p{number}" for number in range(1, 400)]}
    found = client.post(path, {"query": "Tesla?", "max_num_results": 3, "filters": many})
    assert found.status_code == 200, found.text
    assert client.refused(
        422, {"query": "?", "filters": {"type": "eq", "key": "day", "value": 3}}, path
    ).startswith("filters: column day is of type date32")
    assert "filters: there is no column" in client.refused(
        422, {"query": "?", "filters": {"type": "eq", "key": "x", "value": 1}}, path
    )
    for name, more in {
        "body.filter": {"filter": {"type": "eq", "key": "id", "value": "p2"}},
        "body.filters.kye": {"filters": {"type": "eq", "kye": "id", "value": "p2"}},
        "body.ranking_options.least": {"ranking_options": {"least": 1}},
    }.items():
        assert client.refused(422, {"query": "?", **more}, path) == f"{name}: Extra inputs are not permitted"
    assert (
        client.refused(422, {"query": []}, path)
        == "body.query: List should have at least 1 item after validation, not 0"
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
