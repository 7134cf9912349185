"""Passages on disk between their check and their shards."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.data import shards
from multiview.data.passages import SCHEMA, content_hash
from multiview.data.sentences import ENDS, begin_sentence_ends, sentence_ends
from multiview.data.shards import AHEAD, PassageCache

BEGIN = partial(begin_sentence_ends, language="english")
TEXTS = st.lists(st.text("aB. é東", max_size=12), max_size=4)


def table_of(texts: Sequence[str], first: int, **more: list) -> pa.Table:
    columns = {"id": [f"p{first + n}" for n in range(len(texts))], "title": [""] * len(texts), "text": texts}
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()} | more)


@given(st.lists(TEXTS, max_size=2 * AHEAD), st.data())
@settings(max_examples=40, deadline=None)
def test_wanted_passages_come_back_in_order_with_their_sentences(tmp_path_factory, tables, data):
    folder: Path = tmp_path_factory.mktemp("cache")
    texts = [text for table in tables for text in table]
    wanted = {f"p{n}" for n in range(len(texts)) if data.draw(st.booleans())}
    named = data.draw(st.sampled_from([None, wanted]))
    cache, first = PassageCache(folder, BEGIN, named), 0
    for table in tables:
        cache.add(table_of(table, first))
        first += len(table)
    rows = [row for table in cache.tables(wanted, SCHEMA) for row in table.to_pylist()]
    assert rows == [
        {
            "id": f"p{n}",
            "title": "",
            "text": text,
            "sentence_ends": list(sentence_ends(text)),
            "content_hash": content_hash("", text),
        }
        for n, text in enumerate(texts)
        if f"p{n}" in wanted
    ]
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, 2]),
        pa.nulls(2),
        pa.array(["a", "a"]).dictionary_encode(),
        pa.chunked_array([pa.array(["a"]).dictionary_encode(), pa.array(["b"]).dictionary_encode()]),
        pa.array([[{"x": 1}], []]),
        pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int8())),
        pa.array([1.5, None]),
    ],
    ids=lambda column: str(column.type),
)
def test_columns_of_any_type_come_back_and_those_that_a_table_lacks_are_null(tmp_path, column):
    cache = PassageCache(tmp_path, BEGIN, None)
    cache.add(table_of(["One.", "Two."], 0, more=column))
    cache.add(table_of(["Three."], 2))
    schema = pa.schema([*SCHEMA, ("more", column.type)])
    whole = pa.concat_tables(cache.tables({"p0", "p1", "p2"}, schema))
    assert whole["more"].to_pylist() == [*column.to_pylist(), None]


def test_sentences_are_begun_ahead_and_passages_that_nobody_names_are_not_split(tmp_path):
    begun: list[str] = []

    def begin(texts: Sequence[str]) -> Callable[[], pa.Array]:
        begun.extend(texts)
        return lambda: pa.array([[len(text)] for text in texts], ENDS)

    cache = PassageCache(tmp_path, begin, {"p1", "article"})
    for number in range(AHEAD):
        cache.add(table_of([f"text {number}"], number, article_id=["article" if number > 2 else "other"]))
    assert begun == ["text 1", *(f"text {number}" for number in range(3, AHEAD))]
    assert not list(tmp_path.iterdir()), "none is waited for"


def test_long_texts_do_not_wait_in_memory_however_few_they_are(tmp_path, monkeypatch):
    tables = [table_of(["x" * 1000], number) for number in range(10)]
    monkeypatch.setattr(shards, "AHEAD_BYTES", 3 * tables[0].nbytes)
    cache = PassageCache(tmp_path, BEGIN, None)
    for number, table in enumerate(tables, 1):
        cache.add(table)
        assert len(list(tmp_path.iterdir())) == max(0, number - 3)
