"""The sizes of shards, and row groups whose sentences are begun ahead of the one that is written."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from multiview.data.passages import ROW_GROUP
from multiview.data.sentences import ENDS
from multiview.data.shards import (
    AHEAD,
    MOST_COUNTED,
    begin_groups,
    counted_lengths,
    shard_sizes,
    write_shards,
)


def test_sentences_are_begun_at_once_and_written_in_order(tmp_path: Path) -> None:
    count, begun = (AHEAD + 3) * ROW_GROUP, [0]

    def sentences_of(texts: Sequence[str], hashes: Sequence[str]) -> Callable[[], pa.Array]:
        begun[0] += 1
        return lambda: pa.array([[len(text)] for text in texts], ENDS)

    ids = [f"p{i}" for i in range(count)]
    table = pa.table({"id": ids, "title": [""] * count, "text": ids})
    groups = begin_groups([table], [count], sentences_of)
    assert begun == [AHEAD], "before any group is taken"
    assert write_shards(groups, [count], tmp_path, lambda done, total, what: None) == count
    assert begun == [AHEAD + 3]
    (file,) = tmp_path.iterdir()
    assert pq.read_table(file)["id"].to_pylist() == ids


@given(st.lists(st.integers(1, MOST_COUNTED), min_size=1, max_size=60), st.data())
def test_shards_hold_all_passages_and_are_as_long_as_whole_passages_allow(
    long: list[int], data: st.DataObject
) -> None:
    shards = data.draw(st.integers(1, len(long)))
    sizes = shard_sizes(np.array(long, np.int16), shards)
    assert len(sizes) == shards and sum(sizes) == len(long) and min(sizes) >= 1
    parts = np.split(np.array(long), np.cumsum(sizes)[:-1])
    for size, part in zip(sizes, parts, strict=True):
        assert size == 1 or part.sum() < sum(long) / shards + max(long)


@given(st.integers(1, 200), st.data())
def test_shards_of_equal_passages_differ_by_one_at_most(count: int, data: st.DataObject) -> None:
    sizes = shard_sizes(np.full(count, 9, np.int16), data.draw(st.integers(1, count)))
    assert max(sizes) - min(sizes) <= 1


def test_sums_of_lengths_are_larger_than_a_length_can_be() -> None:
    assert shard_sizes(np.full(1 << 20, MOST_COUNTED, np.int16), 4) == [1 << 18] * 4


def test_a_passage_counts_by_its_title_and_text_in_code_points_up_to_a_limit() -> None:
    table = pa.table({"title": ["ab", "", "é"], "text": ["cde", "x" * 5000, "東京"]})
    assert counted_lengths(table).tolist() == [5, MOST_COUNTED, 3]
