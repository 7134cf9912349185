"""The negatives artifact: one row per question and source."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multiview.data.questions import Question, read_questions
from multiview.errors import InputError, counted
from multiview.steps.context import StepContext
from multiview.steps.events import Events

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
    """Returns the rows of one source, one per question: its kept passages, in rank order.

    `passage_rows`, `scores` and `kept` are [q, k]; `ids` are the ids of all passages.
    """
    columns = [
        pa.array(qids, pa.string()),
        pa.array([source] * len(qids), pa.string()),
        _lists(kept, ids.take(pa.array(passage_rows[kept]))),
        _lists(kept, pa.array(scores[kept], pa.float32())),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def with_positives(table: pa.Table, passage_rows: np.ndarray, found: np.ndarray, ids: pa.Array) -> pa.Table:
    """Returns `table`, one row per question, with the column of found positives: `passage_rows` [q, k] where `found` [q, k]."""
    return table.append_column(POSITIVES, _lists(found, ids.take(pa.array(passage_rows[found]))))


def _lists(chosen: np.ndarray, values: pa.Array) -> pa.ListArray:
    """One list per row of `chosen` [q, k] bool, of the `values` where it is true."""
    stops = np.concatenate([[0], np.cumsum(chosen.sum(axis=1))])
    return pa.ListArray.from_arrays(pa.array(stops, pa.int32()), values)


def write_negatives(folder: Path, table: pa.Table) -> None:
    """Writes the only file of the artifact, in row groups whose ids pyarrow can read back: 2 GiB at most."""
    pq.write_table(table, folder / NEGATIVES_FILE, row_group_size=1 << 16)


def read_table(folder: Path, dictionaries: list[str] | None = None) -> pa.Table:
    """Returns the rows as written, with the columns `dictionaries` dictionary-encoded.

    Raises InputError if the folder has no such file, or the file lacks columns.
    """
    path = folder / NEGATIVES_FILE
    if not path.is_file():
        raise InputError(
            f"{path}: missing; run the step that makes these negatives again (bm25-negatives, given-negatives, mine or teach)"
        )
    table = pq.read_table(path, read_dictionary=dictionaries)
    if missing := set(SCHEMA.names) - set(table.column_names):
        raise InputError(
            f"{path}: lacks the columns {', '.join(sorted(missing))}; found {', '.join(table.column_names)}"
        )
    return table


class HardNegatives(Mapping[str, dict[str, list[str]]]):
    """A `Pool` of the rows of a negatives artifact, the sources in file order; `read_negatives` returns one.

    Memory holds 4 bytes per negative, and the id of each passage once per row group.
    """

    def __init__(
        self, table: pa.Table, positives: Mapping[str, Collection[str]], equal: Mapping[str, str]
    ) -> None:
        self._ids, self._positives, self._equal = table["negative_ids"], positives, equal
        self._rows: dict[str, dict[str, list[int]]] = {}
        of_rows = zip(table["qid"].to_pylist(), table["source"].to_pylist(), strict=True)
        for row, (qid, source) in enumerate(of_rows):
            self._rows.setdefault(qid, {}).setdefault(source, []).append(row)

    def __getitem__(self, qid: str) -> dict[str, list[str]]:
        texts = {self._equal.get(id_, id_) for id_ in self._positives.get(qid, ())}
        return {
            source: [id_ for id_ in self._distinct(rows) if self._equal.get(id_, id_) not in texts]
            for source, rows in self._rows[qid].items()
        }

    def _distinct(self, rows: Sequence[int]) -> dict[str, None]:
        lists = (self._ids[row].values for row in rows)
        return dict.fromkeys(id_ for ids in lists if ids for id_ in ids.dictionary_decode().to_pylist())

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def read_negatives(
    folder: Path,
    positives: Mapping[str, Collection[str]] | None = None,
    equal: Mapping[str, str] | None = None,
) -> HardNegatives:
    """Returns each question's hard negatives by source, without its `positives` and passages `equal` to them.

    `equal` is what `equal_texts` returns. A passage may be a negative of several sources.

    >>> rows = {"qid": ["q0", "q0"], "source": ["bm25", "mined"], "negative_ids": [["p1", "p2"], ["p2", "p3"]]}
    >>> write_negatives(folder, pa.table(rows | {"scores": [[9.0, 8.0], [7.0, 6.0]]}, schema=SCHEMA))
    >>> read_negatives(folder)["q0"]
    {'bm25': ['p1', 'p2'], 'mined': ['p2', 'p3']}
    """
    table = read_table(folder, ["negative_ids.list.element"])
    return HardNegatives(table, positives or {}, equal or {})


def read_positives(folder: Path) -> dict[str, list[str]]:
    """Returns the positives that mining found, per question that has some; empty for a file without the column."""
    table = read_table(folder)
    if POSITIVES not in table.column_names:
        return {}
    rows = zip(table["qid"].to_pylist(), table[POSITIVES].to_pylist(), strict=True)
    return {qid: positives for qid, positives in rows if positives}


# --- negatives that come with the questions, as DPR's and tevatron's files have them ---------------


def given_negatives(context: StepContext) -> None:
    """Step: writes the negatives that the input `questions` name, into `negatives`: one row per question, in their order."""
    questions = read_questions(context.input("questions").path)
    write_negatives(context.output("negatives"), given_table(questions, context.events))


def given_table(questions: Sequence[Question], events: Events) -> pa.Table:
    """Returns the given negatives, with null scores, in the order of the data, and reports how many there are.

    Positives are left out. Negatives that hold an answer are not: whoever chose them has judged them.
    """
    negatives = [
        [id_ for id_ in question.negative_ids if id_ not in question.positive_ids] for question in questions
    ]
    without = sum(not ids for ids in negatives)
    events.fact(questions_without_given_negatives=without)
    if questions:
        events.metric("given_negatives_per_question", sum(map(len, negatives)) / len(questions))
    if without:
        events.warning(f"no given negative for {without:,} of {counted(len(questions), 'question')}")
    columns = {
        "qid": [question.qid for question in questions],
        "source": [GIVEN] * len(questions),
        "negative_ids": negatives,
        "scores": [[None] * len(ids) for ids in negatives],
    }
    return pa.table(columns, schema=SCHEMA)
