"""The sizes of shards, and their row groups."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.data.passages import ROW_GROUP
from multiview.data.sentences import ENDS
from multiview.data.shards import (
    MOST_COUNTED,
    counted_lengths,
    shard_sizes,
    write_shards,
)


@given(st.lists(st.integers(0, 2 * ROW_GROUP), min_size=1, max_size=5), st.integers(1, 3))
@settings(max_examples=20, deadline=None)
def test_row_groups_do_not_depend_on_the_tables(tmp_path_factory, parts: list[int], shards: int) -> None:
    count = sum(parts)
    ends = pa.array([[number] for number in range(count)], ENDS)
    table = pa.table({"id": [f"p{number}" for number in range(count)], "sentence_ends": ends})
    sizes = [count // shards] * (shards - 1) + [count - count // shards * (shards - 1)]
    written = []
    for each in ([table], [table.slice(sum(parts[:part]), size) for part, size in enumerate(parts)]):
        folder = tmp_path_factory.mktemp("shards")
        assert write_shards(each, sizes, folder, lambda done, total, what: None, table.schema) == count
        written.append([file.read_bytes() for file in sorted(folder.iterdir())])
    assert written[0] == written[1]
    ids = [pq.read_table(file)["id"].to_pylist() for file in sorted(folder.iterdir())]
    assert [id_ for each in ids for id_ in each] == table["id"].to_pylist()


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
