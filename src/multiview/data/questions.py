"""Questions with answers, and the selection of those that are used."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from multiview.errors import InputError, counted

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
"""Column of the negatives that come with the questions; a file has it where some question has any."""

LARGEST_GRADE = 10_000
"""The largest grade of a positive: trec_eval, which computes nDCG, counts a question's passages by grade, up to the largest."""

GENERATED = "generated:"
"""How the id of a question begins that was generated from the corpus, wherever the question is used."""

FILE = "questions.parquet"
ROW_GROUP = 10_000


@dataclass(frozen=True, slots=True)
class Question:
    """A question.

    `answer_starts` are offsets in code points into the text of the first positive passage, one per answer; None where
    the data have no offsets. `relevance` are the grades of the positives, whole numbers above 0, one per positive;
    None means that all are 1. `negative_ids` are the hard negatives that come with the data.
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

    def with_grades(self, grades: Mapping[str, int]) -> Question:
        """Returns the question with these positives. Its offsets are kept only if the first positive stays the same."""
        positives = tuple(grades)
        starts = self.answer_starts if positives[:1] == self.positive_ids[:1] else None
        return replace(self, answer_starts=starts, positive_ids=positives, relevance=relevance(grades))


def relevance(grades: Mapping[str, int]) -> tuple[int, ...] | None:
    """Returns the grades as a `Question` holds them: None where all are 1."""
    values = tuple(grades.values())
    return None if set(values) <= {1} else values


def write_questions(questions: Iterable[Question], folder: Path) -> None:
    """Writes `questions.parquet` into a folder; equal questions give equal bytes."""
    questions = list(questions)
    columns = [
        [q.qid for q in questions],
        [q.question for q in questions],
        [q.answers for q in questions],
        [q.answer_starts for q in questions],
        [q.positive_ids for q in questions],
        [q.relevance for q in questions],
    ]
    table = pa.table(columns, schema=SCHEMA)
    if any(q.negative_ids for q in questions):
        table = table.append_column(NEGATIVES, pa.array([q.negative_ids for q in questions], NEGATIVES.type))
    pq.write_table(table, Path(folder) / FILE, compression="zstd", row_group_size=ROW_GROUP)


def iterate_questions(folder: Path) -> Iterator[Question]:
    """Yields the questions of a folder in order. Raises InputError when it has no `questions.parquet`."""
    file = _existing(folder)
    with pq.ParquetFile(file, pre_buffer=False) as parquet:  # otherwise the whole file is read ahead
        columns = [name for name in (*SCHEMA.names, NEGATIVES.name) if name in parquet.schema_arrow.names]
        for batch in parquet.iter_batches(columns=columns):
            rows = zip(*(batch.column(name).to_pylist() for name in columns), strict=True)
            for qid, question, answers, starts, positives, grades, *negatives in rows:
                yield Question(
                    qid,
                    question,
                    tuple(answers),
                    None if starts is None else tuple(starts),
                    tuple(positives),
                    None if grades is None else tuple(grades),
                    tuple((negatives and negatives[0]) or ()),
                )


def read_columns(folder: Path, columns: Sequence[str]) -> pa.Table:
    """Returns some columns of `SCHEMA` of all questions of a folder, in order. Raises as `iterate_questions`."""
    with pq.ParquetFile(_existing(folder), pre_buffer=False) as parquet:
        return parquet.read(columns=list(columns))


def _existing(folder: Path) -> Path:
    file = Path(folder) / FILE
    if not file.is_file():
        raise InputError(f"{file}: no such file; run the split step")
    return file


def read_questions(folder: Path) -> list[Question]:
    """Returns all questions of a folder, in order.

    >>> (question,) = read_questions(questions)
    >>> question.question, question.answers, question.positive_ids
    ('Who built it?', ('the king',), ('p0',))
    """
    return list(iterate_questions(folder))


def seeded_hash(seed: int, name: str) -> str:
    """Returns 64 pseudo-random hex digits that depend only on the seed and the name: a rank, or a further seed."""
    return hashlib.sha256(f"{seed}:{name}".encode("utf-8", "surrogatepass")).hexdigest()


def limited(questions: Sequence[Question], limit: int | None, seed: int) -> list[Question]:
    """Returns at most `limit` questions in their given order, drawn by `seed` independently of that order."""
    if limit is None or limit >= len(questions):
        return list(questions)
    chosen = set(sorted((q.qid for q in questions), key=lambda qid: seeded_hash(seed, qid))[:limit])
    return [q for q in questions if q.qid in chosen]


def one_per_passage(questions: Sequence[Question], seed: int) -> list[Question]:
    """Returns one question per first positive passage, drawn by `seed`: AVQ = 1 (CAMVR 4.4).

    The ranks differ from those of `limited`. The lowest of many ranks tends to be low, so a later limit by the same
    ranks would favour passages with many questions.
    """
    lowest: dict[str, tuple[str, str]] = {}
    for q in questions:
        rank = (seeded_hash(seed, f"one_per_passage:{q.qid}"), q.qid)
        if q.positive_ids[0] not in lowest or rank < lowest[q.positive_ids[0]]:
            lowest[q.positive_ids[0]] = rank
    chosen = {qid for _, qid in lowest.values()}
    return [q for q in questions if q.qid in chosen]


def held_out(questions: Sequence[Question], share: float, seed: int) -> tuple[list[Question], list[Question]]:
    """Returns training and dev questions with no first positive passage in common.

    A `share` of these passages, at least one, is drawn by `seed`, and all questions about them are held out. Raises
    InputError when there is only one passage.
    """
    passages = sorted({q.positive_ids[0] for q in questions}, key=lambda id_: seeded_hash(seed, id_))
    if len(passages) < 2:
        raise InputError(
            "questions.source: all questions are about one passage, so nothing can be held out; "
            "give questions.dev_source"
        )
    dev_count = min(max(1, round(share * len(passages))), len(passages) - 1)
    dev = set(passages[:dev_count])
    return (
        [q for q in questions if q.positive_ids[0] not in dev],
        [q for q in questions if q.positive_ids[0] in dev],
    )


def with_known_positives(questions: Iterable[Question], known: Collection[str]) -> tuple[list[Question], int]:
    """Returns the questions with at least one positive in `known`, and the number of questions without one.

    Unknown positives are left out with their grades. A question that loses its first positive loses its offsets too.
    """
    kept: list[Question] = []
    dropped = 0
    for q in questions:
        found = [id_ for id_ in q.positive_ids if id_ in known]
        if not found:
            dropped += 1
        elif len(found) == len(q.positive_ids):
            kept.append(q)
        else:
            kept.append(q.with_grades({id_: q.grades[id_] for id_ in found}))
    return kept, dropped


def with_known_negatives(questions: Iterable[Question], known: Collection[str]) -> tuple[list[Question], int]:
    """Returns the questions with those of their given negatives that are in `known`, and the number of the others."""
    kept: list[Question] = []
    unknown = 0
    for q in questions:
        if not q.negative_ids:
            kept.append(q)
            continue
        negatives = tuple(id_ for id_ in q.negative_ids if id_ in known)
        unknown += len(q.negative_ids) - len(negatives)
        kept.append(replace(q, negative_ids=negatives) if len(negatives) < len(q.negative_ids) else q)
    return kept, unknown


def unknown_positives(question: Question, known: Collection[str]) -> int:
    """Returns the number of positives that are not in `known`; 0 for a question without any known positive."""
    if len(question.positive_ids) < 2:
        return 0
    unknown = sum(id_ not in known for id_ in question.positive_ids)
    return unknown if unknown < len(question.positive_ids) else 0


def shared_line(train: Iterable[Question], dev: Iterable[Question]) -> str:
    """Returns what is said of dev questions whose id and text a training question has too, or nothing."""
    seen = {(q.qid, q.question) for q in train}
    shared = [q.qid for q in dev if (q.qid, q.question) in seen]
    if not shared:
        return ""
    said = counted(
        len(shared), "dev question is a training question too", "dev questions are training questions too"
    )
    return (
        f"{said} (first: question {shared[0]}): both sets keep such questions, so dev figures are measured on "
        "training questions; leave them out of one of the two files"
    )


def questions_per_passage(questions: Sequence[Question]) -> float:
    """Returns AVQ, the mean number of questions per first positive passage; 0 without questions."""
    passages = {q.positive_ids[0] for q in questions}
    return len(questions) / len(passages) if passages else 0.0
