"""`IndexViews`: the rows of an index, in order, with what they represent."""

import numpy as np
import pyarrow as pa
import pytest

import multiview
from multiview.errors import InputError
from multiview.export.views import IndexViews
from tests.fixtures.system_indexes import SYSTEMS


def rows_of(views: IndexViews, **choice) -> list[dict]:
    return [row for batch in views.batches(**choice) for row in batch.to_pylist()]


@pytest.mark.parametrize("system", SYSTEMS)
def test_rows_are_those_that_a_search_explains(indexes, system):
    address = indexes.index(system)
    views, retriever = IndexViews.open(address), multiview.load(address)
    rows = rows_of(views)
    assert len(rows) == len(views.index.views) > 10
    hits = {hit.id: hit for hit in retriever.search(indexes.questions[:1], k=1000, explain=True)[0]}
    assert [row["passage_id"] for row in rows] == np.repeat(
        views.index.ids.to_pylist(), views.index.view_counts
    ).tolist(), "in index order"
    found: dict[str, list] = {}
    for row in rows:
        span = None if row["span_start"] is None else (row["span_start"], row["span_end"])
        found.setdefault(row["passage_id"], []).append((row["view"], span, row["snippet"], row["query"]))
        hit = hits[row["passage_id"]]
        assert (row["title"], row["columns"]) == (hit.title, hit.columns)
        if span:
            assert row["snippet"] == hit.text[slice(*span)]
    expected = {
        id_: [(view.number, view.span, view.snippet, view.query) for view in hit.views]
        for id_, hit in hits.items()
    }
    assert found == expected
    np.testing.assert_array_equal(
        np.array([row["vector"] for row in rows], np.float32),
        views.index.views[: len(rows)].astype(np.float32),
    )


def test_batches_hold_whole_passages_and_few_views(indexes, monkeypatch):
    views = IndexViews.open(indexes.index("all-views"))
    whole = pa.Table.from_batches(views.batches())
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


def test_what_does_not_belong_together_is_refused(indexes):
    with pytest.raises(InputError, match="is the address of .*, not of an index"):
        IndexViews.open(f"{indexes.store.url}/{indexes.record('split', 'passages').folder}")
