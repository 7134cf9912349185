"""The negatives artifact: one row per question and source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multiview.errors import InputError

NEGATIVES_FILE = "negatives.parquet"
BM25 = "bm25"
MINED = "mined"
GIVEN = "given"
"""The source of negatives that come with the questions."""
POSITIVES = "positive_ids"
"""Column of mined passages that hold an answer, which are positives with `mining.answer_hits=positives`."""
Pool: TypeAlias = Mapping[str, Mapping[str, list[str]]]
"""Question to source to the ids of the source's hard negatives, in rank order."""

SCHEMA = pa.schema(
    [
        ("qid", pa.string()),
        ("source", pa.string()),
        ("negative_ids", pa.list_(pa.string())),
        ("scores", pa.list_(pa.float32())),
    ]
)


def negatives_table(
    source: str,
    qids: Sequence[str],
    passage_rows: np.ndarray,
    scores: np.ndarray,
    kept: np.ndarray,
    ids: pa.Array,
) -> pa.Table:
    """Returns the rows of one source: each question's kept passages, in rank order.

    `passage_rows`, `scores` and `kept` are [q, k]; `ids` are the ids of all passages. A question without negatives
    has a row with empty lists, so that no question is missing.
    """
    stops = pa.array(np.concatenate([[0], np.cumsum(kept.sum(axis=1))]), pa.int32())
    columns = [
        pa.array(qids, pa.string()),
        pa.array([source] * len(qids), pa.string()),
        pa.ListArray.from_arrays(stops, ids.take(pa.array(passage_rows[kept]))),
        pa.ListArray.from_arrays(stops, pa.array(scores[kept], pa.float32())),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def with_positives(table: pa.Table, passage_rows: np.ndarray, found: np.ndarray, ids: pa.Array) -> pa.Table:
    """Returns `table`, one row per question, with the column of found positives: `passage_rows` [q, k] where `found` [q, k]."""
    stops = pa.array(np.concatenate([[0], np.cumsum(found.sum(axis=1))]), pa.int32())
    positive_ids = pa.ListArray.from_arrays(stops, ids.take(pa.array(passage_rows[found])))
    return table.append_column(pa.field(POSITIVES, positive_ids.type), positive_ids)


def write_negatives(folder: Path, table: pa.Table) -> None:
    """Writes the only file of the artifact."""
    pq.write_table(table, folder / NEGATIVES_FILE)


def read_table(folder: Path) -> pa.Table:
    """Returns the rows as written. Raises InputError when the folder holds no negatives."""
    path = folder / NEGATIVES_FILE
    if not path.is_file():
        raise InputError(f"{path}: missing; give a folder of negatives, or run `bm25` again")
    table = pq.read_table(path)
    if missing := set(SCHEMA.names) - set(table.column_names):
        raise InputError(
            f"{path}: lacks the columns {', '.join(sorted(missing))}; found {', '.join(table.column_names)}"
        )
    return table


def read_negatives(folder: Path) -> dict[str, dict[str, list[str]]]:
    """Returns the hard negatives of each question by source, the sources in file order.

    A passage may be a negative of several sources.

    >>> rows = {"qid": ["q0", "q0"], "source": ["bm25", "mined"], "negative_ids": [["p1", "p2"], ["p2", "p3"]]}
    >>> write_negatives(folder, pa.table(rows | {"scores": [[9.0, 8.0], [7.0, 6.0]]}, schema=SCHEMA))
    >>> read_negatives(folder)
    {'q0': {'bm25': ['p1', 'p2'], 'mined': ['p2', 'p3']}}
    """
    pool: dict[str, dict[str, list[str]]] = {}
    for batch in read_table(folder).to_batches():
        for qid, source, negatives in zip(
            *(batch[name].to_pylist() for name in SCHEMA.names[:3]), strict=True
        ):
            sources = pool.setdefault(qid, {})
            sources[source] = list(dict.fromkeys([*sources.get(source, ()), *negatives]))
    return pool


def read_positives(folder: Path) -> dict[str, list[str]]:
    """Returns the positives that mining found, per question that has some; empty for a file without the column."""
    table = read_table(folder)
    if POSITIVES not in table.column_names:
        return {}
    rows = zip(table["qid"].to_pylist(), table[POSITIVES].to_pylist(), strict=True)
    return {qid: positives for qid, positives in rows if positives}
