"""The order of training questions and their hard negatives: a pure function of an index.

A stream keeps no state, so a resumed run sees exactly the examples that an uninterrupted run would have seen.
"""

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from multiview.config import Train
from multiview.data.questions import Question, seeded_hash
from multiview.negatives.negatives_file import Pool


@dataclass(frozen=True, slots=True)
class Example:
    """A question as one step trains on it, with the ids of its positive passage and of the hard negatives drawn for it."""

    question: Question
    positive: str
    negatives: tuple[str, ...]
    teacher: tuple[float, ...] = ()
    """A cross-encoder's logits of the positive and of the negatives, -inf for a passage without one; empty without
    distillation."""


class Stream(ABC):
    """The examples of all steps in sequence: item i is example `i % batch_size` of step `i // batch_size`.

    Each epoch is another permutation, drawn by seed, epoch and the examples' names. Examples that do not fill a batch
    are left out of that epoch. Where there are fewer examples than `train.batch_size`, the batches are smaller.
    """

    def __init__(self, count: int, settings: Train) -> None:
        self.count = count
        self.settings = settings
        self.batch_size = min(settings.batch_size, count)
        self.steps_per_epoch = count // self.batch_size
        self.steps = max(1, round(settings.epochs * self.steps_per_epoch))
        if settings.max_steps is not None:
            self.steps = min(self.steps, settings.max_steps)
        self._orders: dict[int, np.ndarray] = {}

    @abstractmethod
    def names(self) -> Iterable[str]:
        """The distinct names of the examples, in order."""

    @abstractmethod
    def example(self, index: int, epoch: int) -> Example:
        """The example at position `index` of `names`, as it is trained on in an epoch."""

    def __len__(self) -> int:
        return self.steps * self.batch_size

    def __getitem__(self, item: int) -> Example:
        if not 0 <= item < len(self):
            raise IndexError(item)
        epoch, position = divmod(item, self.steps_per_epoch * self.batch_size)
        return self.example(int(self._order(epoch)[position]), epoch)

    def step(self, step: int) -> list[Example]:
        """All examples of a step; steps count from 0."""
        first = step * self.batch_size
        return [self[item] for item in range(first, first + self.batch_size)]

    def _order(self, epoch: int) -> np.ndarray:
        """The order of an epoch. The last two are kept, because loaders read a little ahead."""
        orders = self._orders
        if epoch not in orders:
            orders = self._orders = dict([*orders.items()][-1:]) | {epoch: self._permutation(epoch)}
        return orders[epoch]

    def _permutation(self, epoch: int) -> np.ndarray:
        """The order of the examples in an epoch, which depends on their names and not on the order of the file."""
        keys = (seeded_hash(self.settings.seed, f"{epoch}:{name}") for name in self.names())
        # As bytes in one array: the corpus of a warm-up may have millions of passages.
        return np.argsort(np.fromiter(map(bytes.fromhex, keys), "S32", self.count), kind="stable")


class QuestionStream(Stream):
    """Questions with their positives and hard negatives, drawn by seed, epoch and question.

    A question's sources of hard negatives take turns, in an order drawn anew for each round of turns, and each draws a
    passage without replacement. So a question with 5 mined negatives and 50 of BM25 meets mined ones half of the time,
    as in tevatron's recipe. One with fewer than `train.negatives` is trained on with all that it has.
    """

    def __init__(
        self,
        questions: Sequence[Question],
        positives: Sequence[Sequence[str]],
        pool: Pool,
        settings: Train,
        teacher: Mapping[str, Mapping[str, float]] | None = None,
    ) -> None:
        """`positives` are one list of ids per question, `teacher` a cross-encoder's logits by question and passage."""
        super().__init__(len(questions), settings)
        self.questions = questions
        self.positives = positives
        self.pool = pool
        self.teacher = teacher

    def names(self) -> Iterable[str]:
        return (question.qid for question in self.questions)

    def example(self, index: int, epoch: int) -> Example:
        question = self.questions[index]
        draws = random.Random(f"{self.settings.seed}:{epoch}:{question.qid}:positive")
        positive, negatives = draws.choice(self.positives[index]), self._negatives(question.qid, epoch)
        if self.teacher is None:
            return Example(question, positive, negatives)
        logits = self.teacher.get(question.qid, {})
        return Example(
            question, positive, negatives, tuple(logits.get(id_, -math.inf) for id_ in (positive, *negatives))
        )

    def _negatives(self, qid: str, epoch: int) -> tuple[str, ...]:
        number = self.settings.negatives
        draws = random.Random(f"{self.settings.seed}:{epoch}:{qid}")
        sources = [ids for ids in self.pool.get(qid, {}).values() if ids]
        drawn = [draws.sample(ids, min(number, len(ids))) for ids in sources]
        negatives: list[str] = []
        for turn in range(epoch * number, (epoch + 1) * number) if drawn else ():
            # A source that has no other passage leaves its turn to the next.
            candidates = (id_ for source in self._turn(qid, turn, len(drawn)) for id_ in drawn[source])
            if (negative := next((id_ for id_ in candidates if id_ not in negatives), None)) is not None:
                negatives.append(negative)
        return tuple(negatives)

    def _turn(self, qid: str, turn: int, sources: int) -> list[int]:
        """The sources, starting with the one whose turn it is, in the order drawn for this round of `sources` turns."""
        turns, place = divmod(turn, sources)
        order = random.Random(f"{self.settings.seed}:{turns}:{qid}:sources").sample(range(sources), sources)
        return order[place:] + order[:place]


class QueryStream(Stream):
    """Each passage with one of its queries, the next query in each epoch; without hard negatives."""

    def __init__(
        self, passages: pa.ChunkedArray, queries: Callable[[str], tuple[str, ...]], settings: Train
    ) -> None:
        """`passages` are ids; `queries` gives the queries of a passage by its id, at least one for each of `passages`."""
        super().__init__(len(passages), settings)
        self.passages = passages
        self.queries = queries

    def names(self) -> Iterable[str]:
        return (id_.as_py() for id_ in self.passages)

    def example(self, index: int, epoch: int) -> Example:
        id_ = self.passages[index].as_py()
        queries = self.queries(id_)
        return Example(Question(id_, queries[epoch % len(queries)], (), None, (id_,)), id_, ())
