"""The order of training questions and their hard negatives: a pure function of an index.

Nothing here keeps state, so a resumed run sees exactly what an uninterrupted one would have seen.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from multiview.config import Train
from multiview.data.questions import Question, draw


@dataclass(frozen=True, slots=True)
class Example:
    """A question as one step trains it: its positive passage's id and the hard negatives drawn for it."""

    question: Question
    positive: str
    negatives: tuple[str, ...]


class Stream(ABC):
    """All steps' examples in a row: item i is example i mod batch of step i div batch.

    Each epoch is a permutation of its own, by seed, epoch and the examples' names; what does not fill a batch
    is left out of that epoch. Fewer examples than a batch make a smaller batch.
    """

    def __init__(self, count: int, settings: Train) -> None:
        self.count = count
        self.settings = settings
        self.batch_size = min(settings.batch_size, count)
        self.steps_per_epoch = count // self.batch_size
        self.steps = max(1, round(settings.epochs * self.steps_per_epoch))
        if settings.max_steps is not None:
            self.steps = min(self.steps, settings.max_steps)
        # Two epochs at a time: a batch never spans more, and loaders read a little ahead.
        self._order = lru_cache(maxsize=2)(self._permutation)

    @abstractmethod
    def names(self) -> Iterable[str]:
        """What each example is known by, in order; all differ."""

    @abstractmethod
    def example(self, index: int, epoch: int) -> Example:
        """The example of the name `index` as it is trained in an epoch."""

    def __len__(self) -> int:
        return self.steps * self.batch_size

    def __getitem__(self, item: int) -> Example:
        if not 0 <= item < len(self):
            raise IndexError(item)
        epoch, position = divmod(item, self.steps_per_epoch * self.batch_size)
        return self.example(int(self._order(epoch)[position]), epoch)

    def step(self, number: int) -> list[Example]:
        """All examples of a step, counted from 0."""
        first = number * self.batch_size
        return [self[item] for item in range(first, first + self.batch_size)]

    def _permutation(self, epoch: int) -> np.ndarray:
        """The examples' order in an epoch; it depends on their names, not on how the file orders them."""
        keys = (draw(self.settings.seed, f"{epoch}:{name}") for name in self.names())
        # As bytes in one array: a corpus of a warm-up has millions.
        return np.argsort(np.fromiter(map(bytes.fromhex, keys), "S32", self.count), kind="stable")


class QuestionStream(Stream):
    """Questions with their positives and hard negatives.

    The positive is drawn by seed, epoch and question from those that `positives` has for it. Hard negatives are
    drawn likewise, without replacement; a question with fewer than asked trains with those it has.
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
        number = min(self.settings.negatives, len(pool))
        return tuple(random.Random(f"{self.settings.seed}:{epoch}:{qid}").sample(pool, number))


class QueryStream(Stream):
    """Each passage with one of its queries, the next one every epoch; no hard negatives."""

    def __init__(
        self, passages: pa.ChunkedArray, queries: Callable[[str], tuple[str, ...]], settings: Train
    ) -> None:
        """`passages` are ids, and `queries` says what each is asked: none of them nothing."""
        super().__init__(len(passages), settings)
        self.passages = passages
        self.queries = queries

    def names(self) -> Iterable[str]:
        return (id_.as_py() for id_ in self.passages)

    def example(self, index: int, epoch: int) -> Example:
        id_ = self.passages[index].as_py()
        own = self.queries(id_)
        return Example(Question(id_, own[epoch % len(own)], (), None, (id_,)), id_, ())
