"""The order of training questions and their hard negatives: a pure function of an index.

A stream keeps no state, so a resumed run sees exactly the examples that an uninterrupted run would have seen.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from multiview.config import Train
from multiview.data.questions import Question, seeded_hash


@dataclass(frozen=True, slots=True)
class Example:
    """A question as one step trains on it, with the ids of its positive passage and of the hard negatives drawn for it."""

    question: Question
    positive: str
    negatives: tuple[str, ...]


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
        # Two epochs are cached: a batch never spans more, and loaders read a little ahead.
        self._order = lru_cache(maxsize=2)(self._permutation)

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

    def _permutation(self, epoch: int) -> np.ndarray:
        """The order of the examples in an epoch, which depends on their names and not on the order of the file."""
        keys = (seeded_hash(self.settings.seed, f"{epoch}:{name}") for name in self.names())
        # As bytes in one array: the corpus of a warm-up may have millions of passages.
        return np.argsort(np.fromiter(map(bytes.fromhex, keys), "S32", self.count), kind="stable")


class QuestionStream(Stream):
    """Questions with their positives and hard negatives.

    The positive is drawn from the question's entry of `positives`, by seed, epoch and question. Hard negatives are
    drawn in the same way, without replacement. A question with fewer than `train.negatives` of them is trained on
    with all that it has.
    """

    def __init__(
        self,
        questions: Sequence[Question],
        positives: Sequence[Sequence[str]],
        pool: dict[str, list[str]],
        settings: Train,
    ) -> None:
        super().__init__(len(questions), settings)
        self.questions = questions
        self.positives = positives
        self.pool = pool

    def names(self) -> Iterable[str]:
        return (question.qid for question in self.questions)

    def example(self, index: int, epoch: int) -> Example:
        question = self.questions[index]
        return Example(question, self._positive(index, epoch), self._negatives(question.qid, epoch))

    def _positive(self, index: int, epoch: int) -> str:
        draws = random.Random(f"{self.settings.seed}:{epoch}:{self.questions[index].qid}:positive")
        return draws.choice(self.positives[index])

    def _negatives(self, qid: str, epoch: int) -> tuple[str, ...]:
        pool = self.pool.get(qid, [])
        count = min(self.settings.negatives, len(pool))
        return tuple(random.Random(f"{self.settings.seed}:{epoch}:{qid}").sample(pool, count))


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
