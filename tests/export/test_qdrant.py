"""Collections of Qdrant, in its client's local mode: the search, the alias and what is loaded."""

from __future__ import annotations

import random
import sqlite3
import sys
import time
from contextlib import closing
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from qdrant_client import QdrantClient, models

import multiview
from multiview.artifacts.champions import address_of, champion_of, rollback
from multiview.cli.app import app
from multiview.errors import InputError
from multiview.export import qdrant
from multiview.export.qdrant import (
    collection_name,
    follow_champion,
    load_index,
    open_client,
    point_digest,
    point_id,
    points_of,
)
from multiview.export.views import IndexViews
from multiview.serving.hits import passage_fields
from multiview.serving.retriever import load_artifacts
from tests.fixtures.crowned import promote
from tests.fixtures.forked import MULTIVIEW, forked, run_forked
from tests.fixtures.system_indexes import SYSTEMS


@pytest.fixture
def client():
    with closing(QdrantClient(":memory:")) as client:
        yield client


Content = dict[str, int]
"""Digest of each point, by its id."""


def content(address: str) -> Content:
    """That of an index, by its views alone."""
    points = points_of(IndexViews.open(address))
    return {str(each.id): point_digest(str(each.id), each.payload, each.vector) for each in points}


def content_of(client: QdrantClient, name: str) -> Content:
    points, _ = client.scroll(name, limit=1000, with_payload=True, with_vectors=True)
    return {str(each.id): point_digest(str(each.id), each.payload, each.vector) for each in points}


def aliases(client: QdrantClient) -> dict[str, str]:
    return {each.alias_name: each.collection_name for each in client.get_aliases().aliases}


def collections(client: QdrantClient) -> set[str]:
    return {each.name for each in client.get_collections().collections}


CONDITIONS = {
    "": None,
    "url is null": models.Filter(must=[models.IsNullCondition(is_null=models.PayloadField(key="columns.url"))]),
    'day >= "2020-01-10"': models.Filter(
        must=[models.FieldCondition(key="columns.day", range=models.DatetimeRange(gte=date(2020, 1, 10)))]
    ),
}  # fmt: skip


@pytest.mark.parametrize("system", SYSTEMS)
def test_ranking_and_scores_are_those_of_the_exact_search(indexes, client, system):
    """Qdrant's sums are of float32, the index's of float64: scores agree within 1e-5 of the largest, which ties of fewer
    digits than that would be ranked by chance."""
    address = indexes.index(system)
    name, retriever = load_index(client, address).name, multiview.load(address)
    assert client.get_collection(name).config.params.vectors.datatype == models.Datatype.FLOAT16
    questions = [retriever.question_vector(question) for question in indexes.questions[:8]]
    for where, filter_ in CONDITIONS.items():
        among = retriever.among(where) if where else np.ones(len(retriever), bool)
        top = retriever.index.search(np.stack(questions), 10, among=among)
        for number, question in enumerate(questions):
            found = client.query_points(
                name, query=[question.tolist()], query_filter=filter_, limit=10
            ).points
            hits = list(top.hits(number))
            assert len(found) == len(hits) > 2
            scores = np.array([score for _, score, _ in hits])
            large = np.abs(scores).max()
            np.testing.assert_allclose([each.score for each in found], scores, atol=1e-5 * large)
            apart = np.abs(np.diff(scores)) > 1e-4 * large
            expected = [retriever.index.passage_id(row) for row, _, _ in hits]
            got = [each.payload["id"] for each in found if each.payload]
            for place in range(len(hits)):
                if all(apart[max(0, place - 1) : place + 1]):
                    assert got[place] == expected[place]


def test_a_point_says_what_the_server_says_of_its_passage(indexes, client):
    address = indexes.index("camvr")
    loaded = load_index(client, address)
    retriever = multiview.load(address)
    (record,) = client.retrieve(loaded.name, [point_id("p3")], with_vectors=True)
    indexed = retriever.passage("p3")
    assert indexed is not None and record.payload is not None
    said = passage_fields(indexed)
    assert {**said, "columns": None, "views": None} == {**record.payload, "columns": None, "views": None}
    assert record.payload["columns"] == {"url": "https://example.org/3", "day": "2020-01-04"}
    assert [view["snippet"] for view in record.payload["views"]] == [view.snippet for view in indexed.views]
    np.testing.assert_array_equal(np.array(record.vector, np.float32), retriever.index.views_of(indexed.row))


def test_a_load_is_idempotent_and_mends(indexes, client):
    address = indexes.index("camvr")
    first = load_index(client, address)
    assert (first.points, first.uploaded, first.deleted) == (32, 32, 0)
    assert content_of(client, first.name) == content(address)
    again = load_index(client, address)
    assert (again.name, again.uploaded, again.deleted) == (first.name, 0, 0)
    (kept,) = client.retrieve(first.name, [point_id("p2")], with_vectors=True)
    client.delete(first.name, [point_id("p1")])
    client.set_payload(first.name, {"title": "other"}, [point_id("p2")])
    client.update_vectors(first.name, [models.PointVectors(id=point_id("p3"), vector=[[1.0] * 64])])
    for id in (7, point_id("none")):
        client.upsert(first.name, [models.PointStruct(id=id, vector=[[0.5] * 64], payload={})])
    assert content_of(client, first.name) != content(address)
    mended = load_index(client, address)
    assert (mended.uploaded, mended.deleted) == (3, 2)
    assert content_of(client, first.name) == content(address)
    assert client.retrieve(first.name, [point_id("p2")], with_vectors=True) == [kept]


def test_another_index_model_or_corpus_is_another_collection(indexes, monkeypatch):
    """The index says nothing of the corpus's own columns, which are in the points."""
    found = load_artifacts(address := indexes.index("camvr"))
    names = {collection_name(address)}
    for number, each in enumerate(found):
        record = each.record.model_copy(update={"digest": "0" * 64})
        changed = [*found[:number], each._replace(record=record), *found[number + 1 :]]
        monkeypatch.setattr(qdrant, "load_artifacts", lambda address, changed=changed: changed)
        names.add(collection_name(address))
    assert len(names) == 4


@pytest.mark.parametrize("arrives", ["nothing", "others"])
def test_a_collection_that_is_another_in_the_end_is_told_and_gets_no_alias(
    crowned, client, monkeypatch, arrives
):
    """As many points, of other content, are another collection too."""
    upload = client.upload_points

    def altered(name, points, **how):
        others = [each.model_copy(update={"payload": {**each.payload, "text": "other"}}) for each in points]
        if arrives == "others":
            upload(name, others, **how)

    monkeypatch.setattr(client, "upload_points", altered)
    with pytest.raises(InputError, match=r"collection multiview-[0-9a-f]{16} is not that of index "):
        follow_champion(crowned.store, client)
    assert aliases(client) == {}


def test_a_collection_of_an_earlier_version_goes_on_and_gets_text_indexes(indexes, client):
    address = indexes.index("camvr")
    name = collection_name(address)
    multivector = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
    client.create_collection(
        name, models.VectorParams(size=64, distance=models.Distance.DOT, multivector_config=multivector)
    )
    client.upload_points(name, points_of(IndexViews.open(address)))
    with pytest.raises(ValueError, match="needs a text index"):
        client.query_points(name, query=models.TextQuery(text="Paris"), using="title")
    assert load_index(client, address).uploaded == 0
    for field in ("title", "text"):
        found = client.query_points(name, query=models.TextQuery(text="PARIS?"), using=field, limit=3).points
        assert len(found) == 3 and all(each.payload and "Paris" in each.payload[field] for each in found)


def test_a_text_index_that_is_there_stays(indexes, client, monkeypatch):
    """The local mode does not list it, as a server does."""
    monkeypatch.setattr(client, "get_collection", lambda name: SimpleNamespace(payload_schema={"text": None}))
    name = load_index(client, indexes.index("mvr")).name
    assert client.query_points(name, query=models.TextQuery(text="Paris"), using="title").points
    with pytest.raises(ValueError, match="needs a text index with `scoring` on `text`"):
        client.query_points(name, query=models.TextQuery(text="Paris"), using="text")


def test_a_passage_of_more_numbers_than_a_point_holds_is_refused_before_the_upload(
    indexes, client, monkeypatch
):
    address = indexes.index("camvr")
    views = IndexViews.open(address)
    most = int(views.index.view_counts.max())
    first = views.index.passage_id(int(views.index.view_counts.argmax()))
    monkeypatch.setattr(qdrant, "MULTIVECTOR_LIMIT", most * 64)
    with pytest.raises(
        InputError, match=f"passage '{first}': {most} views of 64 numbers; .*: split the passage, or"
    ):
        load_index(client, address)
    assert collections(client) == set()
    monkeypatch.setattr(qdrant, "MULTIVECTOR_LIMIT", most * 64 + 1)
    assert load_index(client, address).uploaded == 32


def test_promotion_and_rollback_switch_the_alias_and_what_is_of_others_is_kept(crowned, client):
    name = {system: collection_name(crowned.index(system)) for system in SYSTEMS}
    client.create_collection("multiview-mine", {})
    client.create_collection("multiview-" + "0" * 16, {})
    for system, there in (
        ("camvr", ["camvr"]),
        ("mvr", ["camvr", "mvr"]),
        ("dpr", ["camvr", "mvr", "dpr"]),
        ("pooled", ["mvr", "dpr", "pooled"]),
    ):
        if system != "camvr":
            promote(crowned, system)
        follow_champion(crowned.store, client)
        assert aliases(client)["multiview"] == name[system]
        assert collections(client) == {"multiview-mine", *(name[each] for each in there)}
        if system == "mvr":
            pinned = models.CreateAlias(collection_name=name["mvr"], alias_name="pinned")
            client.update_collection_aliases([models.CreateAliasOperation(create_alias=pinned)])
    rollback(crowned.store)
    back = follow_champion(crowned.store, client)
    assert (back.name, back.uploaded) == (name["dpr"], 0), "it was still there"
    assert aliases(client) == {"multiview": name["dpr"], "pinned": name["mvr"]}
    assert follow_champion(crowned.store, client, keep=0).uploaded == 0
    assert collections(client) == {"multiview-mine", name["dpr"], name["mvr"]}


def test_a_champion_that_is_promoted_during_a_load_is_the_one_that_answers(crowned, client, monkeypatch):
    def load(*given):
        if champion_of(crowned.store).number == 1:
            promote(crowned, "mvr")
        return load_index(*given)

    monkeypatch.setattr(qdrant, "load_index", load)
    follow_champion(crowned.store, client)
    assert aliases(client) == {"multiview": collection_name(crowned.index("mvr"))}


def test_a_champion_that_is_promoted_and_followed_as_the_alias_is_switched_is_the_one_that_answers(
    crowned, client, monkeypatch
):
    switch, name = client.update_collection_aliases, collection_name(crowned.index("mvr"))

    def later(operations):
        monkeypatch.setattr(client, "update_collection_aliases", switch)
        promote(crowned, "mvr")
        follow_champion(crowned.store, client)
        switch(operations)

    monkeypatch.setattr(client, "update_collection_aliases", later)
    assert follow_champion(crowned.store, client, keep=0).name == name
    assert aliases(client) == {"multiview": name} and collections(client) == {name}


@pytest.mark.parametrize("keep", [0, 1])
def test_a_collection_that_is_loaded_for_a_later_champion_is_not_deleted(crowned, client, monkeypatch, keep):
    listed = client.get_collections

    def loading():
        monkeypatch.setattr(client, "get_collections", listed)
        promote(crowned, "mvr")
        load_index(client, crowned.index("mvr"))
        return listed()

    monkeypatch.setattr(client, "get_collections", loading)
    assert follow_champion(crowned.store, client, keep=keep).uploaded == 0, "it is there"
    assert aliases(client) == {"multiview": collection_name(crowned.index("mvr"))}


def test_random_refreshes_leave_no_difference(corpus, client, monkeypatch):
    """After each, the collection behind the alias is the champion's, and loading encoded nothing."""
    rng = random.Random(18)
    for number in range(4):
        ids = [row["id"] for row in corpus.rows]
        corpus.remove(*rng.sample(ids, rng.randrange(3)))
        corpus.change(*rng.sample(range(len(corpus.rows)), rng.randrange(3)), words=f"In {number}.")
        corpus.add(*(f"new-{number}-{each}" for each in range(1 + rng.randrange(2))))
        corpus.refresh()
        with monkeypatch.context() as patch:
            patch.setattr("multiview.encoding.encode.Encoder.__init__", None)
            follow_champion(corpus.store, client)
        address = address_of(corpus.store, champion_of(corpus.store))
        assert content_of(client, aliases(client)["multiview"]) == content(address)
        there, _ = client.scroll("multiview", limit=1000)
        assert {each.payload["id"] for each in there if each.payload} == {row["id"] for row in corpus.rows}
    assert len(collections(client)) == 3


SLOWLY = """
import time
from qdrant_client.local.persistence import CollectionPersistence
persist = CollectionPersistence.persist
CollectionPersistence.persist = lambda *given: (time.sleep(0.1), persist(*given))
from multiview.cli.app import main
main()
"""


def test_a_killed_load_goes_on(crowned, tmp_path):
    """The same command, after a kill -9 in the middle of the upload."""
    folder, name = tmp_path / "qdrant", collection_name(crowned.index("camvr"))
    words = ["export", "qdrant", "--path", str(folder), "--store", crowned.store.url]
    file = folder / "collection" / name / "storage.sqlite"
    with forked(SLOWLY, *words) as (loading, _, errors):
        while points_in(file) < 5:
            assert loading.is_alive(), errors.read_text()
            time.sleep(0.02)
    before = points_in(file)
    assert 5 <= before < 32
    for uploaded in (32 - before, 0):
        ended = run_forked(MULTIVIEW, *words)
        assert ended.out == (
            f"collection {name}: 32 points, {uploaded} uploaded, 0 deleted; alias multiview refers to it\n"
        ), ended.errors
    with open_client(path=folder) as client:
        assert aliases(client) == {"multiview": name}
        assert content_of(client, name) == content(crowned.index("camvr"))


def points_in(file: Path) -> int:
    if not file.is_file():
        return 0
    with closing(sqlite3.connect(file)) as database:
        try:
            return database.execute("SELECT count(*) FROM points").fetchone()[0]
        except sqlite3.OperationalError:  # no table yet
            return 0


def test_an_index_that_is_named_is_loaded_and_no_alias_changes(crowned, tmp_path, capsys):
    words = ["--path", str(tmp_path / "qdrant"), "--index", crowned.index("mvr"), "--alias", "docs"]
    app(["export", "qdrant", *words], standalone_mode=False)
    name = collection_name(crowned.index("mvr"), "docs")
    assert capsys.readouterr().out == (
        f"collection {name}: 32 points, 32 uploaded, 0 deleted; no alias was changed\n"
    )
    with open_client(path=tmp_path / "qdrant") as client:
        assert (collections(client), aliases(client)) == ({name}, {})


def test_what_keeps_qdrant_away_is_told_in_a_line(indexes, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="alias 'a/b': Qdrant takes no '/' in a name; name another"):
        collection_name(indexes.index("mvr"), "a/b")
    monkeypatch.setenv("MULTIVIEW_QDRANT_API_KEY", "secret")
    with pytest.raises(InputError, match=r"^Qdrant at http://127\.0\.0\.1:1: ") as told, open_client("http://127.0.0.1:1") as client:  # fmt: skip
        client.get_collections()
    assert "\n" not in str(told.value) and "secret" not in str(told.value)
    with (
        open_client(path=tmp_path),
        pytest.raises(InputError, match=r"^Qdrant at \S+: .* already accessed by another instance"),
        open_client(path=tmp_path),
    ):
        pass
    for given in ({}, {"url": "http://127.0.0.1:1", "path": tmp_path}):
        with pytest.raises(InputError, match="either a server .--url. or a folder"), open_client(**given):
            pass
    monkeypatch.setitem(sys.modules, "qdrant_client", None)
    with pytest.raises(InputError, match=r"pip install 'multiview-retrieval\[qdrant\]'"), open_client("http://x"):  # fmt: skip
        pass
