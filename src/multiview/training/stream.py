"""The order of training questions and their hard negatives: a pure function of an index.

Nothing here keeps state, so a resumed run sees exactly what an uninterrupted one would have seen.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from multiview.config import Train
from multiview.data.questions import Question, draw


@dataclass(frozen=True, slots=True)
class Example:
    """A question as one step trains it: its positive passage's id and the hard negatives drawn for it."""

    question: Question
    positive: str
    negatives: tuple[str, ...]


class QuestionStream:
    """All steps' questions in a row: item i is question i mod batch of step i div batch.

    Each epoch is a permutation of its own, by seed and epoch; what does not fill a batch is left out of
    that epoch. Fewer questions than a batch make a smaller batch. The positive is drawn by seed, epoch and
    question from those that `positives` has for it. Hard negatives are drawn likewise, without replacement;
    a question with fewer than asked trains with those it has.
    """

    def __init__(
        self,
        questions: Sequence[Question],
        positives: Sequence[Sequence[str]],
        pool: dict[str, list[str]],
        settings: Train,
    ) -> None:
        self.questions = questions
        self.positives = positives
        self.pool = pool
        self.settings = settings
        self.batch_size = min(settings.batch_size, len(questions))
        self.steps_per_epoch = len(questions) // self.batch_size
        self.steps = max(1, round(settings.epochs * self.steps_per_epoch))
        if settings.max_steps is not None:
            self.steps = min(self.steps, settings.max_steps)
        # Two epochs at a time: a batch never spans more, and loaders read a little ahead.
        self._order = lru_cache(maxsize=2)(self._permutation)

    def __len__(self) -> int:
        return self.steps * self.batch_size

    def __getitem__(self, item: int) -> Example:
        if not 0 <= item < len(self):
            raise IndexError(item)
        epoch, position = divmod(item, self.steps_per_epoch * self.batch_size)
        index = self._order(epoch)[position]
        question = self.questions[index]
        return Example(question, self._positive(index, epoch), self._negatives(question.qid, epoch))

    def step(self, number: int) -> list[Example]:
        """All examples of a step, counted from 0."""
        first = number * self.batch_size
        return [self[item] for item in range(first, first + self.batch_size)]

    def _permutation(self, epoch: int) -> list[int]:
        """The questions' order in an epoch; it depends on their ids, not on how the file orders them."""
        keys = [draw(self.settings.seed, f"{epoch}:{question.qid}") for question in self.questions]
        return sorted(range(len(keys)), key=keys.__getitem__)

    def _positive(self, index: int, epoch: int) -> str:
        draws = random.Random(f"{self.settings.seed}:{epoch}:{self.questions[index].qid}:positive")
        return draws.choice(self.positives[index])

    def _negatives(self, qid: str, epoch: int) -> tuple[str, ...]:
        pool = self.pool.get(qid, [])
        number = min(self.settings.negatives, len(pool))
        return tuple(random.Random(f"{self.settings.seed}:{epoch}:{qid}").sample(pool, number))
