"""What the server promises by OpenAPI, and its route in the shape of OpenAI's vector stores."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from itertools import chain

import jsonschema
import pyarrow as pa
import pytest
import requests

from multiview.serving import openai
from multiview.serving.hits import Hit, ScoredView
from multiview.serving.schemas import Filter
from multiview.serving.where import Where


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


def compared(kind: str, value: object) -> Filter:
    return Filter.model_validate({"type": kind, "key": "n", "value": value})


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (compared("eq", 2), [2]),
        (compared("ne", 2), [1, 3]),
        (compared("gt", 2), [3]),
        (compared("gte", 2), [2, 3]),
        (compared("lt", 2), [1]),
        (compared("lte", 2), [1, 2]),
        (compared("in", [1, 2]), [1, 2]),
        (compared("nin", [1, 2]), [3]),
        (Filter(type="and", filters=[compared("gt", 1), compared("lt", 3)]), [2]),
        (Filter(type="or", filters=[compared("lt", 2), compared("gt", 2)]), [1, 3]),
    ],
)
def test_a_filter_finds_what_openai_says_that_it_finds(filters, found):
    rows = pa.record_batch({"n": [1, 2, 3]})
    mask = Where(openai.condition(filters), rows.schema).mask(rows)
    assert rows.filter(pa.array(mask))["n"].to_pylist() == found


@pytest.fixture(scope="module")
def path(loaded):
    return f"/v1/vector_stores/{loaded.address.rpartition('/')[2]}/search"


def test_a_score_threshold_of_0_is_none_where_scores_are_negative(client, loaded, path, monkeypatch):
    (hits,) = loaded.search(["Tesla?"], k=3)
    below = [replace(hit, score=-1.0 - number) for number, hit in enumerate(hits)]
    monkeypatch.setattr(type(loaded), "search", lambda *_, **__: [below])
    for least, left in ((0, 3), (-1.5, 1), (-0.5, 0)):
        asked = {"query": "Tesla?", "ranking_options": {"score_threshold": least}}
        assert len(client.post(path, asked).json()["data"]) == left


def test_a_search_in_openai_s_shape(client, loaded, path):
    def found(query: str | list[str] = "Tesla?", **more):
        return client.post(path, {"query": query, **more}).json()

    every = {"type": "in", "key": "id", "value": [f"p{number}" for number in range(400)]}
    filters = {"type": "or", "filters": [{"type": "ne", "key": "url", "value": "x"}, every]}
    (hits,) = loaded.search(["Tesla?"], k=3)
    assert found(max_num_results=3, filters=filters) == {
        "object": "vector_store.search_results.page",
        "search_query": ["Tesla?"],
        "has_more": False,
        "next_page": None,
        "data": [
            {
                "file_id": hit.id,
                "filename": hit.title or hit.id,
                "score": hit.score,
                "attributes": {name: str(value) for name, value in hit.columns.items() if value is not None},
                "content": [{"type": "text", "text": hit.text}],
            }
            for hit in hits
        ],
    }
    both = {}
    for hit in chain.from_iterable(loaded.search(["Tesla?", "Rome?"], k=4)):
        both[hit.id] = max(both.get(hit.id, hit.score), hit.score)
    best = sorted(both.items(), key=lambda each: (-each[1], each[0]))[:4]
    several = found(["Tesla?", "Rome?"], max_num_results=4)["data"]
    assert [(one["file_id"], one["score"]) for one in several] == best
    some = found(["Tesla?", "Rome?"], ranking_options={"score_threshold": best[1][1]})["data"]
    assert [one["file_id"] for one in some] == [id for id, _ in best[:2]]
    assert found(ranking_options={"score_threshold": best[0][1] + 1})["data"] == []
    assert len(found(ranking_options={"score_threshold": 0})["data"]) == 10


REFUSED = {
    "filters: at most 20,000": {"filters": {"type": "in", "key": "id", "value": ["p2"] * 5000}},
    "filters: column day is of type date32": {"filters": {"type": "eq", "key": "day", "value": 3}},
    "body.filters: not a JSON object": {"filters": []},
    "body.filter: Extra inputs": {"filter": {"type": "eq", "key": "id", "value": "p2"}},
    "body.filters.kye: Extra inputs": {"filters": {"type": "eq", "kye": "id", "value": "p2"}},
    "body.ranking_options.least: Extra inputs": {"ranking_options": {"least": 1}},
}


def test_a_request_in_openai_s_shape_is_refused_in_a_line_about_its_own_fields(client, loaded, path):
    for message, more in REFUSED.items():
        refused = client.refused(422, {"query": "?", **more}, path)
        assert refused.startswith(message) and "Content-Type" not in refused
    for number in ("NaN", "Infinity"):
        sent = f'{{"query": "?", "ranking_options": {{"score_threshold": {number}}}}}'
        headers = {"content-type": "application/json"}
        answer = requests.post(f"{client.url}{path}", data=sent, headers=headers, timeout=60)
        assert "finite" in answer.json()["error"]["message"] and answer.status_code == 422
    key = loaded.address.rpartition("/")[2]
    assert f"there are: {key}" in client.refused(404, {"query": "?"}, "/v1/vector_stores/champion/search")


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
