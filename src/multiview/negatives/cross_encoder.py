"""A cross-encoder scores pairs of a question and a passage, for two uses.

Mining drops hits that it scores high, which may be unlabelled positives (RocketQA 3.3); and training distils its scores
of each question's positives and negatives (`multiview.model.loss.distillation_loss`).
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multiview.config import Config
from multiview.data.passages import COLUMNS, Passage, PassageLookup, ids_in, passages_of
from multiview.data.questions import Question, read_questions
from multiview.encoding.cross_encoder import CrossEncoder, HitPosition
from multiview.errors import InputError
from multiview.model.base_model.checkpoint import staged_base
from multiview.model.base_model.files import TEACHER
from multiview.model.devices import workers
from multiview.negatives.filters import hits_by_passage
from multiview.negatives.negatives_file import NEGATIVES_FILE, read_negatives, read_positives
from multiview.steps.context import StepContext
from multiview.steps.events import Events

TEACHER_FILE = "teacher.parquet"
"""File of the negatives artifact with the cross-encoder's logits, one row per question."""
SCHEMA = pa.schema(
    [("qid", pa.string()), ("passage_ids", pa.list_(pa.string())), ("logits", pa.list_(pa.float32()))]
)


def logits(
    passage_rows: np.ndarray,
    wanted: np.ndarray,
    ids: pa.Array,
    passages: Path,
    questions: Sequence[Question],
    settings: Config,
    events: Events,
) -> np.ndarray:
    """Returns the logit [q, k] float64 that `mining.cross_encoder` gives each wanted hit; 0 elsewhere.

    `passage_rows` [q, k] and `ids` are as in `hits_by_passage`. Memory holds only the texts of open batches. Raises
    InputError for a model that is not a cross-encoder, or whose logits are not finite.
    """
    result, total = np.zeros(passage_rows.shape), int(wanted.sum())
    if not total:
        return result
    name = settings.mining.cross_encoder or ""
    with staged_base(name, TEACHER) as folder:
        cross_encoder = CrossEncoder(folder, settings.encode, name, TEACHER)

    def pairs() -> Iterator[tuple[str, Passage, HitPosition]]:
        corpus = PassageLookup(passages)
        for table, *hits in hits_by_passage(passage_rows, wanted, ids, corpus, COLUMNS):
            some = list(passages_of(table))
            for number, question, column in zip(*(each.tolist() for each in hits), strict=True):
                yield questions[question].question, some[number], (question, column)

    found = cross_encoder.logits(pairs(), workers(cross_encoder.device))
    for done, (position, logit) in enumerate(found, 1):
        result[position] = logit
        events.progress(done, total, "pairs")
    return result


# --- distillation ---------------------------------------------------------------------------------


def teach(context: StepContext) -> None:
    """Step: scores each training question's positives and hard negatives with `mining.cross_encoder`.

    Inputs `passages`, `questions` and `hard_negatives`. Output `negatives`: the same negatives, and the logits of all
    of these passages that the corpus holds. Positives that mining found are scored too.
    """
    corpus, folder = context.input("passages").path, context.input("hard_negatives").path
    questions = read_questions(context.input("questions").path)
    negatives, positives = read_negatives(folder), read_positives(folder)
    known = [(*q.positive_ids, *positives.get(q.qid, ())) for q in questions]
    judged = [(ids, *negatives.get(q.qid, {}).values()) for q, ids in zip(questions, known, strict=True)]
    held = ids_in(corpus, {id_ for each in judged for id_ in chain(*each)})
    lists = [[id_ for id_ in dict.fromkeys(chain(*each)) if id_ in held] for each in judged]
    row_of = {id_: row for row, id_ in enumerate(dict.fromkeys(chain(*lists)))}
    ids, rows = pa.array(row_of, pa.string()), np.full((len(lists), max(map(len, lists), default=0)), -1)
    for question, some in enumerate(lists):
        rows[question, : len(some)] = [row_of[id_] for id_ in some]
    found = logits(rows, rows >= 0, ids, corpus, questions, context.settings, context.events)
    write_teacher(context.output("negatives"), [question.qid for question in questions], lists, found)
    shutil.copyfile(folder / NEGATIVES_FILE, context.output("negatives") / NEGATIVES_FILE)
    context.events.fact(questions=len(questions), pairs=sum(map(len, lists)))
    if (accuracy := teacher_accuracy(known, lists, found)) is not None:
        context.events.metric("teacher_accuracy", accuracy)


def teacher_accuracy(
    positives: Sequence[Sequence[str]], lists: Sequence[Sequence[str]], logits: np.ndarray
) -> float | None:
    """Returns the share of questions whose first positive has a higher logit than every passage that is no positive.

    `positives` include those that mining found. Only questions with passages of both kinds count; None without any.
    """
    right = []
    for known, ids, row in zip(positives, lists, logits, strict=True):
        others = [row[column] for column, id_ in enumerate(ids) if id_ not in known]
        if others and ids[0] in known:
            right.append(row[0] > max(others))
    return float(np.mean(right)) if right else None


def write_teacher(
    folder: Path, qids: Sequence[str], lists: Sequence[Sequence[str]], logits: np.ndarray
) -> None:
    """Writes the logits [q, k] of the passages in `lists`."""
    rows = [row[: len(ids)].tolist() for ids, row in zip(lists, logits, strict=True)]
    pq.write_table(pa.table([list(qids), list(lists), rows], schema=SCHEMA), folder / TEACHER_FILE)


class Logits(Mapping[str, dict[str, float]]):
    """The logit of each passage by question, held in memory as an Arrow table with the passages' ids."""

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
