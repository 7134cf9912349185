"""A cross-encoder's scores of each question's positives and hard negatives, from which the model can learn as well.

The loss that reads them is `multiview.model.loss.distillation_loss`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multiview.config import Config, JsonObject
from multiview.data.passages import ids_in
from multiview.data.questions import Question, read_questions
from multiview.errors import InputError
from multiview.negatives.mined import cross_encoder_fingerprint
from multiview.negatives.negatives_file import NEGATIVES_FILE, read_negatives, read_positives
from multiview.steps.context import StepContext

TEACHER_FILE = "teacher.parquet"
"""File of the negatives artifact with the cross-encoder's logits, one row per question."""
SCHEMA = pa.schema(
    [("qid", pa.string()), ("passage_ids", pa.list_(pa.string())), ("logits", pa.list_(pa.float32()))]
)


def teacher_fingerprint(settings: Config) -> JsonObject:
    """Returns the fingerprint of the cross-encoder, which is part of the key of its scores. Raises InputError without one."""
    if not settings.mining.cross_encoder:
        raise InputError("mining.cross_encoder: distillation needs a cross-encoder; name one")
    return cross_encoder_fingerprint(settings)


def teach(context: StepContext) -> None:
    """Step: scores each training question's positives and hard negatives with `mining.cross_encoder`.

    Inputs `passages`, `questions` and `hard_negatives`. Output `negatives`: the same negatives, and the logits of every
    passage that the corpus holds. Positives that mining found are scored too. Reads settings.mining and .encode.
    """
    from multiview.negatives.cross_encoder import logits

    corpus, folder = context.input("passages").path, context.input("hard_negatives").path
    questions = read_questions(context.input("questions").path)
    lists = question_lists(questions, folder)
    held = ids_in(corpus, {id_ for ids in lists for id_ in ids})
    lists = [[id_ for id_ in ids if id_ in held] for ids in lists]
    rows, ids = matrix_of(lists)
    found = logits(rows, rows >= 0, ids, corpus, questions, context.settings, context.events)
    write_teacher(context.output("negatives"), [question.qid for question in questions], lists, found)
    shutil.copyfile(folder / NEGATIVES_FILE, context.output("negatives") / NEGATIVES_FILE)
    context.events.fact("questions", len(questions))
    context.events.fact("pairs", sum(map(len, lists)))
    if (accuracy := teacher_accuracy(questions, lists, found)) is not None:
        context.events.metric("teacher_accuracy", accuracy)


def question_lists(questions: Sequence[Question], folder: Path) -> list[list[str]]:
    """Returns what each question may train on: its positives, those found by mining too, then its hard negatives."""
    negatives, positives = read_negatives(folder), read_positives(folder)
    return [
        list(
            dict.fromkeys(
                [
                    *question.positive_ids,
                    *positives.get(question.qid, ()),
                    *(id_ for ids in negatives.get(question.qid, {}).values() for id_ in ids),
                ]
            )
        )
        for question in questions
    ]


def matrix_of(lists: Iterable[Sequence[str]]) -> tuple[np.ndarray, pa.Array]:
    """Returns the lists as rows [q, k] of distinct ids, -1 after the end of a list, and these ids."""
    lists = list(lists)
    row_of = {id_: row for row, id_ in enumerate(dict.fromkeys(id_ for ids in lists for id_ in ids))}
    rows = np.full((len(lists), max(map(len, lists), default=0)), -1, np.int64)
    for question, ids in enumerate(lists):
        rows[question, : len(ids)] = [row_of[id_] for id_ in ids]
    return rows, pa.array(row_of, pa.string())


def teacher_accuracy(
    questions: Sequence[Question], lists: Sequence[Sequence[str]], logits: np.ndarray
) -> float | None:
    """Returns the share of questions whose first positive has a higher logit than every passage but its positives.

    Counted are questions with a positive and another passage; None where there are none.
    """
    right = []
    for question, ids, row in zip(questions, lists, logits, strict=True):
        others = [row[column] for column, id_ in enumerate(ids) if id_ not in question.positive_ids]
        if others and ids[0] in question.positive_ids:
            right.append(row[0] > max(others))
    return float(np.mean(right)) if right else None


def write_teacher(
    folder: Path, qids: Sequence[str], lists: Sequence[Sequence[str]], logits: np.ndarray
) -> None:
    """Writes the logits [q, k] of the passages in `lists`."""
    columns = {
        "qid": list(qids),
        "passage_ids": list(lists),
        "logits": [row[: len(ids)].tolist() for ids, row in zip(lists, logits, strict=True)],
    }
    pq.write_table(pa.table(columns, schema=SCHEMA), folder / TEACHER_FILE)


class Logits(Mapping[str, dict[str, float]]):
    """The logit of each passage by question. Memory has them as Arrow does, with the passages' ids."""

    def __init__(self, table: pa.Table) -> None:
        """`table` has the columns of `SCHEMA`."""
        self._table = table
        self._rows = {qid: row for row, qid in enumerate(table["qid"].to_pylist())}

    def __getitem__(self, qid: str) -> dict[str, float]:
        ids, logits = (self._table[name][self._rows[qid]].as_py() for name in ("passage_ids", "logits"))
        return dict(zip(ids, logits, strict=True))

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def read_teacher(folder: Path) -> Logits:
    """Returns the logit of each passage by question. Raises InputError where the negatives have no logits."""
    path = folder / TEACHER_FILE
    if not path.is_file():
        raise InputError(
            f"train.distill_weight: {folder} holds no logits of a cross-encoder ({TEACHER_FILE}); give negatives that step "
            "teach has scored, or set it to 0"
        )
    return Logits(pq.read_table(path))
