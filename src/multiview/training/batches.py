"""The tensors of one training step, made from its examples."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NotRequired, TypedDict

import torch
from torch import Tensor

from multiview.config import Train
from multiview.data.answers import answer_views
from multiview.data.passages import Passage
from multiview.data.tokens import Mode
from multiview.model.batch import Groups, make_groups
from multiview.model.layouts.base import Layout, TokenSequence, View
from multiview.training.example_order import Example

GROUP_COST = {"cpu": 64, "cuda": 16384}
"""Tokens of padding that cost as much time as one more group of sequences, by type of device.

Measured forward and backward: on a CPU 60 tokens (MiniLM). On an H200 a group takes 8 ms to launch, as long as training
on 19,000 tokens takes (BERT-base: 16 ms, 10,000 tokens).
"""


class TrainingBatch(TypedDict):
    """B questions against P passages: the positives in the order of their questions, then all hard negatives.

    The views of a passage may come from several of the S sequences, so they are located by index.
    """

    questions: Groups
    """B sequences with one view each."""
    passages: Groups
    """S sequences with up to V' views each."""
    view_index: Tensor
    """int64 [P, V]: row of each view of a passage among the S · V' pooled vectors."""
    view_mask: Tensor
    """bool [P, V]: which views exist."""
    real_views: Tensor
    """bool [P, V]: which views exist and are not padding."""
    positive: Tensor
    """int64 [B]: the passage of each question's positive."""
    excluded: Tensor
    """bool [B, P]: passages, apart from the positive, that are not negatives of the question (`excluded_passages`)."""
    answer_views: Tensor
    """bool [B, V]: the positive's views of the answer (`train.positive`)."""
    other_views: Tensor
    """bool [B, V]: the positive's views that hold no answer; all false, as `answer_views`, where `train.positive` is max."""
    teacher: NotRequired[Tensor]
    """float32 [B, P], present with distillation: a cross-encoder's logits of each question's own list, its positive and
    its own hard negatives; -inf elsewhere."""
    order: NotRequired[Tensor]
    """int64 [P], present in one process's share of a batch: the position of each passage of the whole batch when the
    passages of all shares are concatenated. `positive`, `excluded` and `teacher` then describe the whole batch, and all
    other entries describe the share."""


@dataclass(frozen=True)
class Collator:
    """Lays out the questions and passages of a step, each passage with its question where the layout reads queries."""

    layout: Layout
    pad_id: int
    passages: Mapping[str, Passage]
    settings: Train
    equal: Mapping[str, str] = field(default_factory=dict)
    """Ids of passages with equal texts (`equal_texts`)."""
    matching: Mode = "string"
    with_question: bool = True
    group_cost: float = GROUP_COST["cpu"]

    def __call__(self, examples: Sequence[Example]) -> TrainingBatch:
        """The batch of the `examples` of one step."""
        return self._batch(examples, examples)

    def share(self, examples: Sequence[Example], rank: int, processes: int) -> TrainingBatch:
        """The share of a step's `examples` that process `rank` encodes; `excluded` and `teacher` cover the step."""
        parts = shares(len(examples), processes)
        batch = self._batch(examples[parts[rank]], examples)
        batch["order"] = torch.tensor(passage_order([examples[part] for part in parts]))
        return batch

    def _batch(self, examples: Sequence[Example], step: Sequence[Example]) -> TrainingBatch:
        """The batch of `examples`, those of the examples of a `step` that this process encodes."""
        ids = passage_ids(examples)
        queries = [example.question.question for example in examples]
        for example in examples:
            queries += [example.question.question] * len(example.negatives)
        sequences = [
            self.layout.passage(self.passages[name], [query] if self.with_question else [])
            for name, query in zip(ids, queries, strict=True)
        ]
        flat = [sequence for group in sequences for sequence in group]
        index, views = locate_views(sequences, self.layout.max_views)
        width = max(map(len, index))
        answers = [self._answers(e, v) for e, v in zip(examples, views, strict=False)]
        batch = TrainingBatch(
            questions=self._groups([self.layout.question(e.question.question) for e in examples], 1),
            passages=self._groups(flat, self.layout.max_views),
            view_index=torch.tensor([row + [0] * (width - len(row)) for row in index]),
            view_mask=_mask([[True] * len(row) for row in index], width),
            real_views=_mask([[not view.padding for view in row] for row in views], width),
            positive=torch.arange(len(step)),
            excluded=excluded_passages(step, passage_ids(step), self.settings.negative_group, self.equal),
            answer_views=_mask([of_answer for of_answer, _ in answers], width),
            other_views=_mask([others for _, others in answers], width),
        )
        if any(example.teacher for example in step):
            batch["teacher"] = teacher_logits(step)
        return batch

    def _groups(self, sequences: Sequence[TokenSequence], max_views: int) -> Groups:
        return make_groups(sequences, self.pad_id, max_views, self.group_cost, self.settings.chunk)

    def _answers(self, example: Example, views: Sequence[View]) -> tuple[list[bool], list[bool]]:
        """Which views of the positive are the answer's (CAMVR 3.2; every holder where each is a positive, MVR 5.1), and
        which hold none."""
        if self.settings.positive == "max":
            return [False] * len(views), [False] * len(views)
        question, passage = example.question, self.passages[example.positive]
        # Offsets refer to the question's first positive, and this may be another.
        starts = question.answer_starts if example.positive == question.positive_ids[0] else None
        spans = [view.span for view in views]
        chosen, _ = answer_views(spans, passage.text, question.answers, starts, self.matching)
        holders, each = {*chosen}, self.settings.positive == "each"
        # The answer may stand in other places than at its offset.
        if starts is not None and (each or self.settings.in_sequence_weight):
            holders.update(answer_views(spans, passage.text, question.answers, None, self.matching)[0])
        chosen = holders if each else chosen
        others = [not view.padding and number not in holders for number, view in enumerate(views)]
        return [number in chosen for number in range(len(views))], others


def passage_ids(examples: Sequence[Example]) -> list[str]:
    """Ids of the passages of a step: the positives in the order of their questions, then all hard negatives."""
    return [e.positive for e in examples] + [name for e in examples for name in e.negatives]


def shares(examples: int, processes: int) -> list[slice]:
    """Consecutive slices of a step's examples, one per process; their lengths differ by at most one."""
    bounds = [examples * rank // processes for rank in range(processes + 1)]
    return [slice(start, stop) for start, stop in pairwise(bounds)]


def passage_order(parts: Sequence[Sequence[Example]]) -> list[int]:
    """Position of each passage of a whole step among the concatenated passages of its parts [P]."""
    is_negative: list[bool] = []
    for part in parts:
        negatives = sum(len(example.negatives) for example in part)
        is_negative += [False] * len(part) + [True] * negatives
    return sorted(range(len(is_negative)), key=is_negative.__getitem__)


def locate_views(
    sequences: Sequence[Sequence[TokenSequence]], views_per_sequence: int
) -> tuple[list[list[int]], list[list[View]]]:
    """Locates the views of each passage among the pooled vectors: (rows of the views, views), per passage.

    Every sequence has `views_per_sequence` vectors there, even if it has fewer views.
    """
    index: list[list[int]] = []
    views: list[list[View]] = []
    row = 0
    for group in sequences:
        index.append([])
        views.append([])
        for sequence in group:
            index[-1] += range(row, row + len(sequence.views))
            views[-1] += sequence.views
            row += views_per_sequence
    return index, views


def excluded_passages(
    examples: Sequence[Example], ids: Sequence[str], group: int | None, equal: Mapping[str, str]
) -> Tensor:
    """Returns which passages, apart from its positive, are not negatives of each question [B, P] bool.

    These have the same text as a positive of the question (ours; `equal_texts`), or belong to a question of another
    group; each group is `group` consecutive questions.
    """
    questions = torch.arange(len(examples))
    owners = torch.cat(
        [questions, questions.repeat_interleave(torch.tensor([len(e.negatives) for e in examples]))]
    )
    size = group or len(examples)
    mask = questions[:, None] // size != owners // size
    columns: dict[str, list[int]] = defaultdict(list)
    for column, name in enumerate(ids):
        columns[equal.get(name, name)].append(column)
    for question, example in enumerate(examples):
        for name in {example.positive, *example.question.positive_ids}:
            mask[question, columns.get(equal.get(name, name), [])] = True
    mask[questions, questions] = False
    return mask


def teacher_logits(examples: Sequence[Example]) -> Tensor:
    """Returns the teacher's logits of a step's `examples` [B, P] float32, -inf for passages not in a question's own list."""
    first = len(examples)
    logits = torch.full((first, len(passage_ids(examples))), -torch.inf)
    for row, example in enumerate(examples):
        own = [row, *range(first, first + len(example.negatives))]
        logits[row, own] = torch.tensor(example.teacher)
        first += len(example.negatives)
    return logits


def _mask(rows: Sequence[Sequence[bool]], width: int) -> Tensor:
    return torch.tensor([[*row, *[False] * (width - len(row))] for row in rows], dtype=torch.bool)
