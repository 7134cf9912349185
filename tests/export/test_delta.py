"""Deltas: exported views and each refresh's delta are the views of each new index."""

import random
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from multiview import names
from multiview.artifacts.champions import read_champion
from multiview.errors import InputError
from multiview.export.delta import differences, write_delta
from multiview.export.files import write_views
from multiview.export.views import IndexViews
from tests.fixtures.changing_corpus import ChangingCorpus
from tests.fixtures.exported import applied, rows_of

WORDS = ["silver", "river", "castle", "king", "nobody", "island", "tower", "engine", "built", "found", "lost"]


def index_of(corpus: ChangingCorpus, records: Any) -> IndexViews:
    return IndexViews.open(f"{corpus.store.url}/{records['challenger/index'][names.INDEX].folder}")


def edit(corpus: ChangingCorpus, drawn: random.Random) -> None:
    """Some passages come, go or change: the text, the title, or only a column of the corpus's own."""
    rows = [dict(row) for row in corpus.rows]
    for kind in drawn.sample(range(7), drawn.randrange(1, 6)):
        row = drawn.choice(rows)
        text = f"{' '.join(drawn.choices(WORDS, k=drawn.randrange(1, 30)))}."
        if kind == 0:
            rows.insert(drawn.randrange(len(rows)), {**row, "id": f"new-{drawn.random()}", "text": text})
        elif kind == 1 and len(rows) > 8:
            rows.remove(row)
        elif kind == 2:
            row["text"] = f"{row['text']} {text}"
        elif kind == 3:
            row["title"] = text
        elif kind == 4:
            row["url"] = None if row["url"] else f"https://example.org/{drawn.random()}"
        elif kind == 5:
            drawn.shuffle(rows)
        else:
            row["title"] = ""
    corpus.rows = rows


def test_ten_random_refreshes(corpus: ChangingCorpus, tmp_path, monkeypatch):
    monkeypatch.setattr("multiview.export.views.VIEWS_AT_ONCE", 3)
    drawn = random.Random(18)
    gate = {"largest_shrinkage": 1.0, "drops": {}}
    before = index_of(corpus, corpus.refresh(gate=gate))
    write_views(before, tmp_path / "views")
    rows = rows_of(tmp_path / "views")
    counts = dict.fromkeys(("added", "changed", "removed"), 0)
    for number in range(1, 11):
        edit(corpus, drawn)
        now = index_of(corpus, corpus.refresh(gate=gate))
        change = write_delta(before, now, tmp_path / f"delta-{number}")
        counts = {name: count + change["counts"][name] for name, count in counts.items()}
        write_views(now, tmp_path / f"whole-{number}")
        rows = applied(rows, tmp_path / f"delta-{number}")
        assert rows == rows_of(tmp_path / f"whole-{number}")
        assert (change["from_digest"], change["from_passages"]) == (before.name.digest, before.name.passages)
        before = now
    assert min(counts.values()) > 1, "each kind of difference was there"
    again = write_delta(before, before, tmp_path / "nothing")
    assert again["counts"] == dict.fromkeys(counts, 0)
    written = (tmp_path / "nothing").glob("*.parquet")
    assert [pq.read_metadata(file).num_rows for file in written] == [0, 0, 0]


def test_a_change_of_one_column_is_a_change_of_its_passage(corpus: ChangingCorpus, tmp_path):
    """The index's bytes are the same; what is exported of it is not."""
    old = index_of(corpus, corpus.refresh())
    corpus.rows = [
        {**row, "url": "https://example.org/moved"} if row["id"] == "p3" else row for row in corpus.rows
    ]
    new = index_of(corpus, corpus.refresh())
    assert old.name.digest == new.name.digest
    found = differences(old, new)
    assert [new.index.passage_id(row) for row in found.changed] == ["p3"]
    assert not len(found.added) and not len(found.removed)


def test_a_new_column_changes_every_passage(corpus: ChangingCorpus, tmp_path):
    old = index_of(corpus, corpus.refresh())
    corpus.rows = [{**row, "length": len(row["text"])} for row in corpus.rows]
    new = index_of(corpus, corpus.refresh())
    assert len(differences(old, new).changed) == new.passages
    write_views(old, tmp_path / "old")
    write_views(new, tmp_path / "new")
    write_delta(old, new, tmp_path / "delta")
    assert applied(rows_of(tmp_path / "old"), tmp_path / "delta") == rows_of(tmp_path / "new")
    columns = pq.read_schema(tmp_path / "delta" / "changed.parquet").field("columns").type
    assert pa.types.is_integer(columns.field("length").type)


def test_columns_of_any_type_are_exported_and_compared(corpus: ChangingCorpus, tmp_path):
    more = {
        "tags": ["a", "b"],
        "where": {"page": 3, "names": ["x", None]},
        "seen": datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC),
        "price": Decimal("12.50"),
        "share": float("nan"),
        "nothing": None,
        "raw": b"\x00\xff",
    }
    corpus.rows = [{**row, **more} for row in corpus.rows]
    old = index_of(corpus, corpus.refresh())
    corpus.rows[2] = {**corpus.rows[2], "where": {"page": 3, "names": ["x", "y"]}}
    new = index_of(corpus, corpus.refresh())
    assert [new.index.passage_id(row) for row in differences(old, new).changed] == [corpus.rows[2]["id"]]
    write_views(old, tmp_path / "old")
    write_delta(old, new, tmp_path / "delta")
    rows = applied(rows_of(tmp_path / "old"), tmp_path / "delta")
    found = next(row for row in rows if row["passage_id"] == corpus.rows[2]["id"])
    assert found["columns"]["where"] == {"page": 3, "names": ["x", "y"]}
    given = {name: value for name, value in more.items() if name not in ("where", "share")}
    assert {name: found["columns"][name] for name in given} == given


def test_the_first_delta_starts_from_nothing(first_champion: ChangingCorpus, tmp_path):
    champion = read_champion(first_champion.store, 1)
    new = IndexViews.open(champion.index.address)
    empty = [
        f"{first_champion.store.url}/index/{key}"
        for key in first_champion.store.folders("index")
        if f"index/{key}" != new.name.index
    ]
    assert len(empty) == 1
    found = differences(IndexViews.open(empty[0]), new)
    assert (len(found.added), len(found.changed), len(found.removed)) == (new.passages, 0, 0)
    assert np.array_equal(found.added, np.arange(new.passages))


def test_indexes_of_two_models_have_no_delta(indexes, tmp_path):
    views = [IndexViews.open(indexes.index(system)) for system in ("camvr", "mvr")]
    with pytest.raises(InputError, match="there is no delta: export the views whole"):
        write_delta(views[0], views[1], tmp_path / "out")
    assert not (tmp_path / "out").exists()
