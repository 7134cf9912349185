"""`IndexViews`: the rows of an index, in order, with what they represent."""

import numpy as np
import pyarrow as pa
import pytest

import multiview
from multiview.data.passages import content_hash
from multiview.export.views import IndexViews
from tests.fixtures.system_indexes import SYSTEMS


@pytest.mark.parametrize("system", SYSTEMS)
def test_rows_are_those_that_a_search_explains_in_index_order(indexes, system):
    address = indexes.index(system)
    views, retriever = IndexViews.open(address), multiview.load(address)
    hits = {hit.id: hit for hit in retriever.search(indexes.questions[:1], k=1000, explain=True)[0]}
    expected = []
    for passage in views.index.ids.to_pylist():
        hit = hits[passage]
        for view in hit.views:
            assert view.span is None or view.snippet == hit.text[slice(*view.span)]
            start, end = view.span or (None, None)
            about = {"span_start": start, "span_end": end, "snippet": view.snippet, "query": view.query}
            expected.append(
                {
                    "passage_id": passage,
                    "view": view.number,
                    "title": hit.title,
                    "content_hash": content_hash(hit.title, hit.text),
                    "columns": hit.columns,
                    **about,
                }
            )
    rows = [row for batch in views.batches() for row in batch.to_pylist()]
    vectors = np.array([row.pop("vector") for row in rows], np.float32)
    assert rows == expected and len(rows) > 10
    np.testing.assert_array_equal(vectors, views.index.views[:].astype(np.float32))


def test_batches_hold_whole_passages_and_few_views(indexes, monkeypatch):
    views = IndexViews.open(indexes.index("all-views"))
    whole = pa.Table.from_batches(views.batches())
    monkeypatch.setattr("multiview.export.views.ROW_GROUP", 5)  # passages that are read at once
    for most in (1, 4, 9, 10**6):
        monkeypatch.setattr("multiview.export.views.VIEWS_AT_ONCE", most)
        batches = list(views.batches())
        assert all(batch.num_rows <= max(most, 4) for batch in batches)
        assert pa.Table.from_batches(batches).equals(whole)
        ids = [set(batch.column("passage_id").to_pylist()) for batch in batches]
        assert sum(map(len, ids)) == len(views.index), "no passage is in two batches"


def test_the_columns_keep_their_types(indexes):
    columns = IndexViews.open(indexes.index("mvr")).schema.field("columns").type
    assert [(field.name, field.type) for field in columns] == [("url", pa.string()), ("day", pa.date32())]
