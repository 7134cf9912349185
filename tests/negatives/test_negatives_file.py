"""The artifact of negatives: its table, and the pool that training reads."""

import pickle
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from multiview.errors import InputError
from multiview.negatives.negatives_file import (
    NEGATIVES_FILE,
    negatives_table,
    read_negatives,
    read_positives,
    with_positives,
    write_negatives,
)


def test_tables_keep_rank_order_empty_rows_and_what_mining_found(tmp_path):
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
    write_negatives(tmp_path, table)
    assert read_positives(tmp_path) == {}, "as of BM25's negatives"
    found = np.array([[False, True, False], [True, False, False], [False, False, False]])
    table = with_positives(table, numbers, found, ids)
    assert table["positive_ids"].to_pylist() == [["a"], ["b"], []]
    write_negatives(tmp_path, table)
    assert read_positives(tmp_path) == {"x": ["a"], "y": ["b"]}


@pytest.mark.parametrize("seed", range(20))
def test_the_pool_is_that_of_plain_lists(tmp_path, seed):
    """Sources in several rows and row groups, passages twice in a row, questions without negatives, positives among them;
    no negatives at all, and strings as other writers have them."""
    draws = random.Random(seed)
    ids = [f"p{number}" for number in range(12)]
    rows = [
        {
            "qid": f"q{draws.randrange(5)}",
            "source": draws.choice(("bm25", "mined", "given")),
            "negative_ids": draws.choices(ids, k=draws.randrange(6)) if draws.random() > 0.1 else None,
            "scores": [],
        }
        for _ in range(seed and draws.randrange(20))
    ]
    text = (pa.string(), pa.large_string())[seed % 2]
    lists = [("negative_ids", pa.list_(text)), ("scores", pa.list_(pa.float32()))]
    table = pa.Table.from_pylist(rows, schema=pa.schema([("qid", text), ("source", text), *lists]))
    pq.write_table(table, tmp_path / NEGATIVES_FILE, row_group_size=3)
    plain: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        sources = plain.setdefault(row["qid"], {})
        sources[row["source"]] = list(
            dict.fromkeys([*sources.get(row["source"], ()), *(row["negative_ids"] or ())])
        )
    pool = read_negatives(tmp_path)
    assert pool == plain and list(pool) == list(plain)
    assert all(list(pool[qid]) == list(plain[qid]) for qid in plain)

    positives = {f"q{number}": draws.sample([*ids, "elsewhere"], 3) for number in (3, 0, 1, 7)}
    left = {
        qid: {source: [id_ for id_ in ids if id_ not in positives.get(qid, ())] for source, ids in of.items()}
        for qid, of in plain.items()
    }
    assert read_negatives(tmp_path, positives) == left


def test_memory_has_four_bytes_per_negative(tmp_path):
    qids = [f"q{number}" for number in range(500)]
    ids = pa.array([f"p{number}" for number in range(100)])
    rows = np.random.default_rng(0).permuted(np.tile(np.arange(100), (500, 1)), axis=1)
    kept, scores = np.ones((500, 100), bool), np.ones((500, 100))
    write_negatives(tmp_path, negatives_table("bm25", qids, rows, scores, kept, ids))
    assert len(pickle.dumps(read_negatives(tmp_path))) < 4 * rows.size + 100 * 500


def test_row_groups_are_small_enough_for_their_ids_to_be_read_back(tmp_path):
    """pyarrow reads no list of 2 GiB of ids."""
    count = 100_000
    ids, rows = pa.array(["a", "b"]), np.zeros((count, 1), int)
    asked = [*map(str, range(count))]
    write_negatives(tmp_path, negatives_table("mined", asked, rows, rows.astype(np.float32), rows == 0, ids))
    file = pq.ParquetFile(tmp_path / NEGATIVES_FILE)
    assert file.metadata.row_group(0).num_rows == 1 << 16 and file.read().num_rows == count


def test_pool_names_a_file_that_is_not_negatives(tmp_path):
    with pytest.raises(InputError, match=r"negatives\.parquet: missing"):
        read_negatives(tmp_path)
    pq.write_table(pa.table({"qid": ["x"]}), tmp_path / "negatives.parquet")
    with pytest.raises(InputError, match="lacks the columns negative_ids, scores, source"):
        read_negatives(tmp_path)
