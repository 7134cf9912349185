"""Questions with answers, and which of them are used."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from multiview.errors import InputError

SCHEMA = pa.schema(
    [
        ("qid", pa.string()),
        ("question", pa.string()),
        ("answers", pa.list_(pa.string())),
        ("answer_starts", pa.list_(pa.int32())),
        ("positive_ids", pa.list_(pa.string())),
        ("relevance", pa.list_(pa.int32())),
    ]
)

FILE = "questions.parquet"
ROW_GROUP = 10_000


@dataclass(frozen=True, slots=True)
class Question:
    """A question. `answer_starts`, where the data give them, are code points into the text of the
    first positive passage, one for each answer. `relevance` are the positives' grades, whole numbers
    above 0, one for each; none: all are 1."""

    qid: str
    question: str
    answers: tuple[str, ...]
    answer_starts: tuple[int, ...] | None
    positive_ids: tuple[str, ...]
    relevance: tuple[int, ...] | None = None

    @property
    def grades(self) -> dict[str, int]:
        """Each positive with its grade, in order."""
        grades = self.relevance or (1,) * len(self.positive_ids)
        return dict(zip(self.positive_ids, grades, strict=True))

    def with_grades(self, grades: Mapping[str, int]) -> Question:
        """The same question with these positives; offsets, which count in the first one, go with it."""
        positives = tuple(grades)
        starts = self.answer_starts if positives[:1] == self.positive_ids[:1] else None
        return replace(self, answer_starts=starts, positive_ids=positives, relevance=relevance(grades))


def relevance(grades: Mapping[str, int]) -> tuple[int, ...] | None:
    """The grades as a `Question` holds them: none where all are 1."""
    values = tuple(grades.values())
    return None if set(values) <= {1} else values


def write_questions(questions: Iterable[Question], folder: Path) -> None:
    """Write `questions.parquet` into a folder; equal questions give equal bytes."""
    questions = list(questions)
    columns = [
        [q.qid for q in questions],
        [q.question for q in questions],
        [list(q.answers) for q in questions],
        [None if q.answer_starts is None else list(q.answer_starts) for q in questions],
        [list(q.positive_ids) for q in questions],
        [None if q.relevance is None else list(q.relevance) for q in questions],
    ]
    table = pa.table(columns, schema=SCHEMA)
    pq.write_table(table, Path(folder) / FILE, compression="zstd", row_group_size=ROW_GROUP)


def iterate_questions(folder: Path) -> Iterator[Question]:
    """The questions of a folder in order. Raises InputError when it has no `questions.parquet`."""
    file = Path(folder) / FILE
    if not file.is_file():
        raise InputError(f"{file}: no such file; run the split step")
    with pq.ParquetFile(file, pre_buffer=False) as parquet:  # else the whole file is read ahead
        for batch in parquet.iter_batches(columns=SCHEMA.names):
            for row in batch.to_pylist():
                starts, grades = row["answer_starts"], row["relevance"]
                yield Question(
                    row["qid"],
                    row["question"],
                    tuple(row["answers"]),
                    None if starts is None else tuple(starts),
                    tuple(row["positive_ids"]),
                    None if grades is None else tuple(grades),
                )


def read_questions(folder: Path) -> list[Question]:
    """All questions of a folder, in order.

    >>> (question,) = read_questions(questions)
    >>> question.question, question.answers, question.positive_ids
    ('Who built it?', ('the king',), ('p0',))
    """
    return list(iterate_questions(folder))


def draw(seed: int, name: str) -> str:
    """A pseudo-random rank of a name: it depends on the seed and the name alone, not on any order."""
    return hashlib.sha256(f"{seed}:{name}".encode("utf-8", "surrogatepass")).hexdigest()


def limited(questions: Sequence[Question], limit: int | None, seed: int) -> list[Question]:
    """At most `limit` questions, drawn by `seed` whatever their order, in the order they came."""
    if limit is None or limit >= len(questions):
        return list(questions)
    chosen = set(sorted((q.qid for q in questions), key=lambda qid: draw(seed, qid))[:limit])
    return [q for q in questions if q.qid in chosen]


def one_per_passage(questions: Sequence[Question], seed: int) -> list[Question]:
    """One question of each first positive passage, drawn by `seed`: AVQ = 1 (CAMVR 4.4).

    The draw is not `limited`'s: the lowest of many ranks is low, and a limit that followed on the
    same ranks would favour the passages with many questions.
    """
    best: dict[str, tuple[str, str]] = {}
    for q in questions:
        rank = (draw(seed, f"one_per_passage:{q.qid}"), q.qid)
        if q.positive_ids[0] not in best or rank < best[q.positive_ids[0]]:
            best[q.positive_ids[0]] = rank
    chosen = {qid for _, qid in best.values()}
    return [q for q in questions if q.qid in chosen]


def held_out(questions: Sequence[Question], share: float, seed: int) -> tuple[list[Question], list[Question]]:
    """Training and dev questions with no first positive passage in common.

    `share` of these passages, at least one, and all of their questions are held out, drawn by
    `seed`. Raises InputError when there is only one passage.
    """
    passages = sorted({q.positive_ids[0] for q in questions}, key=lambda id_: draw(seed, id_))
    if len(passages) < 2:
        raise InputError(
            "questions.source: all questions are about one passage, nothing can be held out; "
            "give questions.dev_source"
        )
    number = min(max(1, round(share * len(passages))), len(passages) - 1)
    dev = set(passages[:number])
    return (
        [q for q in questions if q.positive_ids[0] not in dev],
        [q for q in questions if q.positive_ids[0] in dev],
    )


def with_known_positives(questions: Iterable[Question], known: Collection[str]) -> tuple[list[Question], int]:
    """The questions with at least one positive in `known`, and how many had none.

    Positives that are not known are left out with their grades; with the first of them go the answer's
    offsets.
    """
    kept: list[Question] = []
    dropped = 0
    for q in questions:
        grades = {id_: grade for id_, grade in q.grades.items() if id_ in known}
        if not grades:
            dropped += 1
        else:
            kept.append(q if len(grades) == len(q.positive_ids) else q.with_grades(grades))
    return kept, dropped


def unknown_positives(question: Question, known: Collection[str]) -> int:
    """How many positives are not in `known`, of a question that has others: 0 where none is known."""
    unknown = sum(id_ not in known for id_ in question.positive_ids)
    return unknown if unknown < len(question.positive_ids) else 0


def questions_per_passage(questions: Sequence[Question]) -> float:
    """AVQ: mean number of questions of a first positive passage that has one; 0 without questions."""
    passages = {q.positive_ids[0] for q in questions}
    return len(questions) / len(passages) if passages else 0.0
