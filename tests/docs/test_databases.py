"""docs/databases.md: its commands and code against Qdrant's local mode, and its recipes over a real export.

The other databases cannot run here: what they would compute is computed from the recipes' own bodies, schema and SQL.
"""

from __future__ import annotations

import io
import json
import math
import re
import runpy
import sqlite3
import struct
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pyarrow as pa
import pytest

import multiview
from multiview.export.files import write_views
from multiview.export.views import IndexViews
from tests.fixtures.crowned import promote
from tests.fixtures.documented import words
from tests.fixtures.forked import run_forked
from tests.fixtures.inprocess import multiview_command
from tests.fixtures.project import ROOT

PAGE = (ROOT / "docs" / "databases.md").read_text(encoding="utf-8")
K = 7
QUESTION = "When did the lighthouse stop burning oil?"


@pytest.mark.documented("multiview export qdrant", document="databases.md")
def test_its_commands_load_what_its_code_asks(documented_lines, indexes, tmp_path, monkeypatch, capsys):
    """Instead of the server, in local mode."""
    monkeypatch.chdir(tmp_path)
    promote(indexes.copy(tmp_path / "store"), "camvr")
    for line in documented_lines:
        given = words(line.replace("--url http://localhost:6333", "--path other"))
        printed = multiview_command(monkeypatch, capsys, *given)
        assert re.fullmatch(r"collection \w+-\w+: 32 points, 32 uploaded, 0 deleted; alias \w+ refers to it\n", printed)  # fmt: skip
    asked = run_forked("".join(re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)))
    lines = [line.split(" ") for line in asked.out.splitlines()]
    assert len(lines) == 10, asked.errors
    retriever = multiview.load("champion", store="store")
    (hits,) = retriever.search([QUESTION], k=5, where="url is not null")
    for (score, id, *_), hit in zip(lines[:5], hits, strict=True):
        assert id == hit.id and float(score) == pytest.approx(hit.score, rel=1e-5)
    (every,) = retriever.search([QUESTION], k=100)
    by_views = [(hit.id, hit.score) for hit in every]
    by_words = best_by_words({hit.id: hit.text for hit in every})
    sums: dict[str, float] = defaultdict(float)
    for ranking in (by_views, by_words):
        for rank, (id, _) in enumerate(ranking, 1):
            sums[id] += 1 / (60 + rank)
    fused = sorted(sums.items(), key=lambda found: (-found[1], found[0]))
    assert [float(score) for score, *_ in lines[5:]] == pytest.approx([score for _, score in fused[:5]])
    assert [float(score) for score, *_ in lines[5:]] == pytest.approx(
        [dict(fused)[id] for _, id, *_ in lines[5:]]
    )
    assert [id for id, _ in fused[:5]] != [id for id, _ in by_views[:5]]


def best_by_words(texts: dict[str, str]) -> list[tuple[str, float]]:
    """The ids of the texts that share a word with the question, by the plain formula of BM25."""
    found = {id: re.findall(r"[^\W_]+", text.lower()) for id, text in texts.items()}
    mean, scores = sum(map(len, found.values())) / len(found), dict.fromkeys(texts, 0.0)
    for word in set(re.findall(r"\w+", QUESTION.lower())):
        holding = [id for id, words in found.items() if word in words]
        rarity = math.log(1 + (len(found) - len(holding) + 0.5) / (len(holding) + 0.5))
        for id in holding:
            count, length = found[id].count(word), len(found[id])
            scores[id] += rarity * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length / mean))
    return sorted(((id, score) for id, score in scores.items() if score), key=lambda each: -each[1])


@pytest.fixture(scope="module", params=["all-views", "pooled", "mvr"])
def exported(request, indexes, tmp_path_factory) -> tuple[Path, Any]:
    """The exported views of an index, and its retriever."""
    address = indexes.index(request.param)
    folder = tmp_path_factory.mktemp("exported") / "views"
    write_views(IndexViews.open(address), folder)
    return folder, multiview.load(address)


def run_example(name: str, *given: str) -> dict[str, Any]:
    """The recipe run as a program; its functions."""
    path = str(ROOT / "docs" / "examples" / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [path, *given])
        return runpy.run_path(path, run_name="__main__")


def json_lines(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text("utf-8").split("\n")[:-1]]


def same_ranking(indexes, retriever, scores_of, rtol: float = 1e-5) -> None:
    """`scores_of` a question's vector, by id, rank as the index does."""
    for question in indexes.questions[:5]:
        (hits,) = retriever.search([question], k=K) if retriever.exact else retriever.search([question], k=K, where='id != ""')  # fmt: skip
        scores = scores_of(retriever.question_vector(question).astype(float).tolist())
        best = sorted(scores.items(), key=lambda each: (-each[1], each[0]))[:K]
        np.testing.assert_allclose([score for _, score in best], [hit.score for hit in hits], rtol=rtol)
        for (id, score), hit in zip(best, hits, strict=True):
            assert id == hit.id or score == pytest.approx(scores[hit.id], rel=rtol)


@pytest.mark.parametrize("engine", ["elasticsearch", "opensearch"])
def test_nested_documents_rank_as_the_index(engine, exported, indexes, tmp_path):
    """By the mapping's similarity, for each nested document, and the query's score_mode."""
    folder, retriever = exported
    recipe = run_example("nested_knn.py", engine, str(folder), str(tmp_path / "loaded"))
    lines = json_lines(tmp_path / "loaded" / "bulk.ndjson")
    actions, documents = lines[::2], lines[1::2]
    assert [each["index"]["_id"] for each in actions] == [each["passage_id"] for each in documents]
    assert sum(len(document["views"]) for document in documents) == len(retriever.index.views)
    assert documents[0]["columns"]["day"] == "2020-01-01"
    properties = json.loads((tmp_path / "loaded" / "index.json").read_text())["mappings"]["properties"]
    fields = properties["views"]["properties"]
    assert documents[0].keys() == properties.keys() and properties["views"]["type"] == "nested"
    assert all(view.keys() == fields.keys() for document in documents for view in document["views"])
    field = fields["vector"]
    assert field.get("dims", field.get("dimension")) == retriever.index.views.shape[1]
    assert (field.get("similarity") or field["method"]["space_type"]) in ("max_inner_product", "innerproduct")

    def positive(product: float) -> float:
        """The score that both engines make of an inner product, as their documentation says."""
        return product + 1 if product >= 0 else 1 / (1 - product)

    def scores_of(vector: list[float]) -> dict[str, float]:
        asked = recipe["search_body"](engine, vector, K)
        nested = asked["query"]["nested"]
        knn = nested["query"]["knn"]
        given = knn["query_vector"] if engine == "elasticsearch" else knn["views.vector"]["vector"]
        assert (nested["path"], nested["score_mode"], asked["size"]) == ("views", "max", K)
        return {
            each["passage_id"]: recipe["inner_product"](
                max(positive(float(np.dot(view["vector"], given))) for view in each["views"])
            )
            for each in documents
        }

    same_ranking(indexes, retriever, scores_of)


def test_tensors_rank_as_the_index(exported, indexes, tmp_path):
    """By the expression of the schema's rank profile."""
    folder, retriever = exported
    recipe = run_example("vespa_views.py", str(folder), str(tmp_path / "application"))
    lines = json_lines(tmp_path / "application" / "feed.jsonl")
    by_id = {line["fields"]["passage_id"]: line["fields"] for line in lines}
    assert [line["put"] for line in lines] == [f"id:multiview:passage::{id}" for id in by_id]
    (hit,) = retriever.search(["Who?"], k=1, explain=True)[0]
    assert list(map(int, by_id[hit.id]["views"]["blocks"])) == [view.number for view in hit.views]
    assert by_id[hit.id]["snippets"] == {str(view.number): view.snippet for view in hit.views if view.snippet}
    schema = (tmp_path / "application" / "schemas" / "passage.sd").read_text()
    fields = set(re.findall(r"field (\w+) type", schema))
    assert all(line["fields"].keys() == fields for line in lines)
    assert (
        schema.count(f"d[{retriever.index.views.shape[1]}]") == 2 and "distance-metric: dotproduct" in schema
    )
    (expression,) = re.findall(r"first-phase \{\s*expression: (.+)", schema)
    assert expression == "max(sum(query(q) * attribute(views), d), view)" and expression in PAGE

    def scores_of(vector: list[float]) -> dict[str, float]:
        asked = recipe["search_body"](vector, K)
        assert asked["ranking"] in schema and "nearestNeighbor(views, q)" in asked["yql"]
        query, views = (
            np.array(asked["input.query(q)"]),
            {id: each["views"]["blocks"] for id, each in by_id.items()},
        )
        return {id: float((np.array([*blocks.values()]) @ query).max()) for id, blocks in views.items()}

    same_ranking(indexes, retriever, scores_of)


def copied_rows(file: Path, kinds: Sequence[str]) -> Iterator[list[Any]]:
    """The values of each row of a file in the binary format of COPY, as PostgreSQL's documentation describes it."""
    data = io.BytesIO(file.read_bytes())
    assert data.read(19) == b"PGCOPY\n\xff\r\n\0" + bytes(8)
    while (count := struct.unpack("!h", data.read(2))[0]) != -1:
        assert count == len(kinds)
        row: list[Any] = []
        for kind in kinds:
            (length,) = struct.unpack("!i", data.read(4))
            row.append(None if length < 0 else value(kind, data.read(length)))
        yield row
    assert data.read() == b""


def value(kind: str, field: bytes) -> Any:
    if kind == "halfvec":
        dim, unused = struct.unpack_from("!hh", field)
        vector = np.frombuffer(field, ">f2", offset=4)
        assert (dim, unused) == (len(vector), 0)
        return json.dumps(vector.tolist())
    return struct.unpack("!i", field)[0] if kind == "integer" else field.decode()


def test_rows_of_a_table_rank_as_the_index(exported, indexes, tmp_path):
    """By the very SQL, run by SQLite where `<#>` is a function, over what the file of COPY holds."""
    folder, retriever = exported
    recipe = run_example("pgvector_views.py", str(folder), str(tmp_path / "loaded"))
    load = (tmp_path / "loaded" / "load.sql").read_text()
    (table,) = re.findall(r"CREATE TABLE views \((.*?)\);", load, re.S)
    names, kinds = zip(*re.findall(r"^    (\w+) (\w+)", table, re.M), strict=True)
    wanted = pa.Table.from_batches(IndexViews.open(retriever.address).batches()).to_pylist()
    assert f"vector halfvec({len(wanted[0]['vector'])})" in load and "hnsw (vector halfvec_ip_ops)" in load
    rows = list(copied_rows(tmp_path / "loaded" / "views.copy", kinds))
    for row, stored in zip(rows, wanted, strict=True):
        said = dict(zip(names, row, strict=True))
        assert all(said[name] == stored[name] for name in ("passage_id", "view", "title", "snippet"))
        assert json.loads(said["vector"]) == stored["vector"] and said["columns"][0] == "\1"
        assert json.loads(said["columns"][1:])["day"] == str(stored["columns"]["day"])
    query = re.sub(r"(\w+)(?:::\w+)? <#> (%\(\w+\)s)::[\w:]+", r"negative_product(\1, \2)", recipe["SEARCH"])
    assert set(re.findall(r"%\(question\)s::(\w+)", recipe["SEARCH"])) == {"vector"}, (
        "a parameter has one type"
    )
    with closing(sqlite3.connect(":memory:")) as database:
        database.create_function(
            "negative_product", 2, lambda *given: -float(np.dot(*map(json.loads, given)))
        )
        database.execute(f"CREATE TABLE views ({', '.join(names)})")
        database.executemany(f"INSERT INTO views VALUES ({', '.join('?' * len(names))})", rows)

        def scores_of(vector: list[float]) -> dict[str, float]:
            candidates = K * int(retriever.index.view_counts.max())
            given = recipe["search_parameters"](vector, K, candidates)
            found = database.execute(re.sub(r"%\((\w+)\)s", r":\1", query), given).fetchall()
            assert [score for *_, score in found] == sorted((score for *_, score in found), reverse=True)
            return {id: score for id, *_, score in found}

        same_ranking(indexes, retriever, scores_of)


def test_a_number_that_json_cannot_hold_is_null():
    """As Elasticsearch, PostgreSQL and Milvus refuse NaN, which pandas writes for what is missing."""
    columns = {"price": math.nan, "most": [1.5, math.inf], "day": date(2020, 1, 1)}
    for recipe in ("nested_knn.py", "pgvector_views.py", "milvus_views.py"):
        plain = runpy.run_path(str(ROOT / "docs" / "examples" / recipe))["plain"]
        assert plain(columns) == {"price": None, "most": [1.5, None], "day": "2020-01-01"}


@pytest.mark.parametrize(("kind", "rtol"), {"FLOAT16_VECTOR": 2e-4, "FLOAT_VECTOR": 1e-5}.items())
def test_grouped_entities_rank_as_the_index(kind, rtol, exported, indexes, monkeypatch):
    """By the arguments of the search, over what the program inserts; a question is rounded in float16."""
    folder, retriever = exported
    monkeypatch.setitem(sys.modules, "pymilvus", pymilvus := MagicMock())
    client = pymilvus.MilvusClient.return_value
    client.has_collection.return_value = True
    with pytest.raises(SystemExit, match="has a collection passages"):
        run_example("milvus_views.py", str(folder), "http://milvus:19530", kind)
    assert not client.insert.called
    client.has_collection.return_value = False
    recipe = run_example("milvus_views.py", str(folder), "http://milvus:19530", kind)
    fields = {given.args[0]: given.kwargs for given in client.create_schema.return_value.add_field.mock_calls}
    entities = [entity for given in client.insert.mock_calls for entity in given.args[1]]
    assert all(entity.keys() == fields.keys() for entity in entities)
    assert len({entity["id"] for entity in entities}) == len(entities) == len(retriever.index.views)
    assert entities[0]["columns"]["day"] == "2020-01-01"
    (index,) = client.prepare_index_params.return_value.add_index.mock_calls

    def scores_of(vector: list[float]) -> dict[str, float]:
        asked = recipe["search_arguments"](vector, K, kind=kind)
        assert asked["search_params"]["metric_type"] == index.kwargs["metric_type"] == "IP"
        assert asked["anns_field"] == index.args[0] and asked["limit"] == K
        (given,) = asked["data"]
        scores: dict[str, float] = {}
        for entity in entities:
            assert np.shape(entity["vector"]) == (fields["vector"]["dim"],)
            group, score = (
                entity[asked["group_by_field"]],
                float(np.dot(np.float64(entity["vector"]), np.float64(given))),
            )
            scores[group] = max(score, scores.get(group, -np.inf))
        return scores

    same_ranking(indexes, retriever, scores_of, rtol)
