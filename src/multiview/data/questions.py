"""Questions with answers, as `split` writes them, and the ids of those that have lost their gold passages."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

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

NEGATIVES = pa.field("negative_ids", pa.list_(pa.string()))
"""Column of the negatives that come with the questions; left out where no question has any."""

LARGEST_GRADE = 10_000
"""The largest grade of a positive: trec_eval, which computes nDCG, keeps a counter for each grade up to the largest."""

GENERATED = "generated:"
"""Prefix of the ids of questions that were generated from the corpus."""

FILE = "questions.parquet"
LOST_FILE = "lost_questions.json"
ROW_GROUP = 10_000


@dataclass(frozen=True, slots=True)
class Question:
    """A question.

    `answer_starts` are offsets in code points into the first positive's text, one per answer; None where the data have none.
    `relevance` has the grade of each positive, above 0; None: all are 1. `negative_ids` are the data's hard negatives.
    """

    qid: str
    question: str
    answers: tuple[str, ...]
    answer_starts: tuple[int, ...] | None
    positive_ids: tuple[str, ...]
    relevance: tuple[int, ...] | None = None
    negative_ids: tuple[str, ...] = ()

    def __hash__(self) -> int:
        return hash(self.qid)

    @property
    def grades(self) -> dict[str, int]:
        """Positive passage to grade, in order."""
        grades = self.relevance or (1,) * len(self.positive_ids)
        return dict(zip(self.positive_ids, grades, strict=True))

    def with_grades(self, grades: Mapping[str, int]) -> Self:
        """Returns the question with these positives. Its offsets are kept only if the first positive stays the same."""
        positives = tuple(grades)
        starts = self.answer_starts if positives[:1] == self.positive_ids[:1] else None
        return replace(self, answer_starts=starts, positive_ids=positives, relevance=relevance(grades))


def relevance(grades: Mapping[str, int]) -> tuple[int, ...] | None:
    """Returns the grades as a `Question` holds them: None where all are 1."""
    values = tuple(grades.values())
    return None if set(values) <= {1} else values


def question_table(questions: Iterable[Question]) -> pa.Table:
    """Returns the questions as a table with the columns of their file."""
    questions = list(questions)
    table = pa.table([[getattr(q, name) for q in questions] for name in SCHEMA.names], schema=SCHEMA)
    if any(q.negative_ids for q in questions):
        table = table.append_column(NEGATIVES, pa.array([q.negative_ids for q in questions], NEGATIVES.type))
    return table


def write_questions(questions: Iterable[Question], folder: Path) -> None:
    """Writes `questions.parquet` into a folder; equal questions give equal bytes."""
    table = question_table(questions)
    pq.write_table(table, folder / FILE, compression="zstd", row_group_size=ROW_GROUP)


def iterate_questions(folder: Path) -> Iterator[Question]:
    """Yields the questions of a folder in order."""
    with pq.ParquetFile(folder / FILE, pre_buffer=False) as parquet:  # otherwise the whole file is read ahead
        columns = [name for name in (*SCHEMA.names, NEGATIVES.name) if name in parquet.schema_arrow.names]
        for batch in parquet.iter_batches(columns=columns):
            for row in zip(*(batch.column(name).to_pylist() for name in columns), strict=True):
                values: list[Any] = [tuple(value) if isinstance(value, list) else value for value in row]
                yield Question(*values)


def read_questions(folder: Path) -> list[Question]:
    """Returns all questions of a folder, in order.

    >>> (question,) = read_questions(questions)
    >>> question.question, question.answers, question.positive_ids
    ('Who built it?', ('the king',), ('p0',))
    """
    return list(iterate_questions(folder))


def positive_ids(questions: Iterable[Question]) -> set[str]:
    """Returns the ids of all positives of some questions."""
    return {id_ for question in questions for id_ in question.positive_ids}


def seeded_hash(seed: int, name: str) -> str:
    """Returns 64 pseudo-random hex digits that depend only on the seed and the name: a rank, or a further seed."""
    return hashlib.sha256(f"{seed}:{name}".encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class LostQuestions:
    """The questions for evaluation that have lost their gold passages, or all answers in them."""

    questions: int
    """Number of questions given, the lost ones included."""
    lost: tuple[str, ...]
    """Ids of the lost ones, in the order of the files."""

    @property
    def share(self) -> float:
        """Share of the questions that are lost; 0 without questions."""
        return len(self.lost) / self.questions if self.questions else 0.0


def write_lost_questions(lost: LostQuestions, folder: Path) -> None:
    """Writes `lost_questions.json` into a folder; equal questions give equal bytes."""
    (folder / LOST_FILE).write_text(json.dumps(asdict(lost), indent=1) + "\n")


def read_lost_questions(folder: Path) -> LostQuestions:
    """Returns what `write_lost_questions` wrote into a folder."""
    content = json.loads((folder / LOST_FILE).read_text())
    return LostQuestions(content["questions"], tuple(content["lost"]))
