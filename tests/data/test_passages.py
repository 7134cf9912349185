"""Reading shards back."""

import os
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.config import Corpus, Questions
from multiview.data.passages import (
    ROW_GROUP,
    SCHEMA,
    Passage,
    PassageLookup,
    equal_texts,
    read_passages,
    read_tables,
    shard_files,
)
from multiview.errors import InputError
from tests.fixtures.artifacts import write_passages
from tests.fixtures.split_run import Done, passage_rows, question_rows, write


def test_lookup_reads_passages_by_id_over_shards_and_row_groups(tmp_path):
    corpus = write(tmp_path / "c.parquet", passage_rows(2500))
    train = write(tmp_path / "t.jsonl", question_rows("t", 20, 20))
    done = Done(tmp_path / "out", Corpus(source=(corpus,), shards=2), Questions(source=(train,)))
    assert [pq.read_metadata(f).num_row_groups for f in shard_files(done.output["passages"])] == [2, 2]
    (done.output["passages"] / "stray.txt").write_text("not a shard")
    lookup = PassageLookup(done.output["passages"])
    asked = ["p2499", "p0", "p999", "p1000", "p1249", "p1250", "p0"]
    by_id = {passage.id: passage for passage in done.passages}
    assert lookup.passages(asked) == {id_: by_id[id_] for id_ in asked}
    assert lookup.passages([]) == {}
    ids = pa.array(["p1250", "nobody", "p3"])
    assert [found.tolist() for found in lookup.find(ids)] == [[3, 1250], [2, 0]]
    assert list(lookup.stream(pa.array(["p1250", "p3"]))) == [(1, by_id["p3"]), (0, by_id["p1250"])]
    texts = [(at, table.to_pydict()) for at, table in lookup.tables(pa.array(["p1250", "p3"]), ["text"])]
    assert texts == [([1], {"text": [by_id["p3"].text]}), ([0], {"text": [by_id["p1250"].text]})]
    with pytest.raises(InputError, match=r"1 of 2 passages .*'nobody'"):
        lookup.passages(["p1", "nobody"])


def test_of_a_shard_a_row_group_is_held(tmp_path):
    """Shards of questions and queries are read in the same way."""
    texts = [os.urandom(1000).hex() for _ in range(10_000)]
    nothing = [[]] * 10_000
    table = pa.table([texts, texts, texts, nothing, texts], schema=SCHEMA)
    pq.write_table(table, tmp_path / "shard-00.parquet", row_group_size=ROW_GROUP, use_dictionary=False)
    del table
    before, rows, held = pa.total_allocated_bytes(), 0, 0
    for batch in read_tables(tmp_path):
        rows += batch.num_rows
        held = max(held, pa.total_allocated_bytes() - before)
    assert rows == 10_000 and held < 40 << 20 < (tmp_path / "shard-00.parquet").stat().st_size


def test_no_shards(tmp_path):
    with pytest.raises(InputError, match="no shards"):
        list(read_passages(tmp_path))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("abc")), max_size=9), st.sets(st.integers(0, 9))
)
def test_equal_texts_are_those_with_the_same_title_and_text(texts, some):
    passages = [Passage(f"p{n}", title, text, (1,)) for n, (title, text) in enumerate(texts)]
    groups = [[p.id for p in passages if (p.title, p.text) == of] for of in dict.fromkeys(texts)]
    groups = [group for group in groups if len(group) > 1]
    asked = {f"p{n}" for n in some}
    with tempfile.TemporaryDirectory() as folder:
        corpus = write_passages(Path(folder) / "passages", passages, shards=2)
        assert equal_texts(corpus) == {id_: group[0] for group in groups for id_ in group}
        expected = {id_: group[0] for group in groups if asked.intersection(group) for id_ in group}
        assert equal_texts(corpus, asked) == expected
