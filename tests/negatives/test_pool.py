"""The artifact of negatives: its table, and the pool that training reads."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from multiview.errors import InputError
from multiview.negatives.pool import negatives_table, read_negatives, write_negatives


def test_table_keeps_rank_order_and_empty_rows():
    ids = pa.array(["a", "b", "c"])
    numbers = np.array([[2, 0, 1], [1, -1, -1], [0, 2, -1]])
    kept = np.array([[True, False, True], [False, False, False], [True, True, False]])
    scores = np.array([[3, 2, 1], [5, -np.inf, -np.inf], [2, 2, -np.inf]], np.float32)
    table = negatives_table("mined", ["x", "y", "z"], numbers, scores, kept, ids)
    assert table.to_pylist() == [
        {"qid": "x", "source": "mined", "negative_ids": ["c", "b"], "scores": [3.0, 1.0]},
        {"qid": "y", "source": "mined", "negative_ids": [], "scores": []},
        {"qid": "z", "source": "mined", "negative_ids": ["a", "c"], "scores": [2.0, 2.0]},
    ]


def test_pool_keeps_sources_apart_and_drops_duplicates(tmp_path):
    ids = pa.array(["a", "b", "c"])
    ones = np.ones((2, 2))
    kept = np.ones((2, 2), bool)
    bm25 = negatives_table("bm25", ["x", "y"], np.array([[1, 0], [2, 1]]), ones, kept, ids)
    mined = negatives_table("mined", ["y", "x"], np.array([[1, 0], [0, 2]]), ones, kept, ids)
    write_negatives(tmp_path, pa.concat_tables([bm25, mined, bm25]))
    assert read_negatives(tmp_path) == {
        "x": {"bm25": ["b", "a"], "mined": ["a", "c"]},
        "y": {"bm25": ["c", "b"], "mined": ["b", "a"]},
    }


def test_pool_names_a_file_that_is_not_negatives(tmp_path):
    with pytest.raises(InputError, match=r"negatives\.parquet: missing"):
        read_negatives(tmp_path)
    pq.write_table(pa.table({"qid": ["x"]}), tmp_path / "negatives.parquet")
    with pytest.raises(InputError, match="lacks the columns negative_ids, scores, source"):
        read_negatives(tmp_path)
