"""From examples to the tensors of one training step."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NotRequired, TypedDict

import torch
from torch import Tensor

from multiview.config import Train
from multiview.data.answers import Mode, answer_views
from multiview.data.passages import Passage
from multiview.model.batch import Batch, make_batch
from multiview.model.layouts import Layout, TokenSequence, View
from multiview.training.stream import Example


class TrainingBatch(TypedDict):
    """B questions against P passages: the positives in order of their questions, then all hard negatives.

    A passage's views may lie in several of the S sequences, so they are found by index.
    """

    questions: Batch
    """B sequences with one view each."""
    passages: Batch
    """S sequences with up to V' views each."""
    view_index: Tensor
    """int64 [P, V]: where each view of a passage lies among the S · V' pooled vectors."""
    view_mask: Tensor
    """bool [P, V]: which views exist."""
    real_views: Tensor
    """bool [P, V]: which of them are not padding."""
    positive: Tensor
    """int64 [B]: each question's passage."""
    excluded: Tensor
    """bool [B, P]: other passages that are no negatives of the question (`no_negatives`)."""
    answer_views: Tensor
    """bool [B, V]: the positive's views that hold the answer; all false where `train.positive` is max."""
    order: NotRequired[Tensor]
    """int64 [P], in one process's share of a batch: where each passage of the whole batch lies when the shares'
    passages follow one another. `positive` and `excluded` are the whole batch's then, all else the share's."""


class Collator:
    """Lays out a step's questions and passages. A passage is read together with its question where the layout does that."""

    def __init__(
        self,
        layout: Layout,
        pad_id: int,
        passages: Mapping[str, Passage],
        settings: Train,
        matching: Mode = "string",
        with_question: bool = True,
    ) -> None:
        self.layout = layout
        self.pad_id = pad_id
        self.passages = passages
        self.settings = settings
        self.matching: Mode = matching
        self.with_question = with_question

    def __call__(self, examples: Sequence[Example]) -> TrainingBatch:
        """The batch of `examples`: one step's."""
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
        return TrainingBatch(
            questions=make_batch(
                [self.layout.question(e.question.question) for e in examples], self.pad_id, 1
            ),
            passages=make_batch(flat, self.pad_id, self.layout.max_views),
            view_index=torch.tensor([row + [0] * (width - len(row)) for row in index]),
            view_mask=_mask([[True] * len(row) for row in index], width),
            real_views=_mask([[not view.padding for view in row] for row in views], width),
            positive=torch.arange(len(examples)),
            excluded=torch.tensor(no_negatives(examples, ids, self.settings.negative_group)),
            answer_views=_mask([self._answers(e, v) for e, v in zip(examples, views, strict=False)], width),
        )

    def share(self, examples: Sequence[Example], rank: int, processes: int) -> TrainingBatch:
        """What process `rank` encodes of a step's `examples`, and which of all passages are negatives of which question."""
        parts = shares(len(examples), processes)
        batch = self(examples[parts[rank]])
        ids = passage_ids(examples)
        batch["positive"] = torch.arange(len(examples))
        batch["excluded"] = torch.tensor(no_negatives(examples, ids, self.settings.negative_group))
        batch["order"] = torch.tensor(passage_order([examples[part] for part in parts]))
        return batch

    def _answers(self, example: Example, views: Sequence[View]) -> list[bool]:
        """Which views of the positive hold the answer (CAMVR 3.2)."""
        if self.settings.positive == "max":
            return [False] * len(views)
        question, passage = example.question, self.passages[example.positive]
        # Offsets are into the first positive; where that is not in the corpus, another stands in for it.
        starts = question.answer_starts if example.positive == question.positive_ids[0] else None
        spans = [view.span for view in views]
        found, _ = answer_views(spans, passage.text, question.answers, starts, self.matching)
        return [i in found for i in range(len(views))]


def passage_ids(examples: Sequence[Example]) -> list[str]:
    """The passages of a step: the positives in order of their questions, then all hard negatives."""
    return [e.positive for e in examples] + [name for e in examples for name in e.negatives]


def shares(examples: int, processes: int) -> list[slice]:
    """Runs of a step's examples, one for each process, whose lengths differ by one at most."""
    bounds = [examples * rank // processes for rank in range(processes + 1)]
    return [slice(start, stop) for start, stop in pairwise(bounds)]


def passage_order(parts: Sequence[Sequence[Example]]) -> list[int]:
    """Where the passages of a whole step lie among those of its parts, one part after another."""
    positives: list[int] = []
    negatives: list[int] = []
    at = 0
    for part in parts:
        positives += range(at, at + len(part))
        at += len(part)
        more = sum(len(example.negatives) for example in part)
        negatives += range(at, at + more)
        at += more
    return positives + negatives


def locate_views(
    sequences: Sequence[Sequence[TokenSequence]], room: int
) -> tuple[list[list[int]], list[list[View]]]:
    """Each passage's views, and where they lie when every sequence has `room` vectors, one sequence after another."""
    index: list[list[int]] = []
    views: list[list[View]] = []
    row = 0
    for group in sequences:
        index.append([])
        views.append([])
        for sequence in group:
            index[-1] += range(row * room, row * room + len(sequence.views))
            views[-1] += sequence.views
            row += 1
    return index, views


def no_negatives(examples: Sequence[Example], ids: Sequence[str], group: int | None) -> list[list[bool]]:
    """[B, P]: which of the passages are no negatives of each question, its own positive's place aside.

    Those that are positives of it too (ours), and with `group` those of questions of other groups.
    """
    size = group or len(examples)
    owners = [*range(len(examples)), *(row for row, e in enumerate(examples) for _ in e.negatives)]
    masks = []
    for own, example in enumerate(examples):
        known = {example.positive, *example.question.positive_ids}
        masks.append(
            [
                i != own and (name in known or owner // size != own // size)
                for i, (name, owner) in enumerate(zip(ids, owners, strict=True))
            ]
        )
    return masks


def _mask(rows: Sequence[Sequence[bool]], width: int) -> Tensor:
    return torch.tensor([[*row, *[False] * (width - len(row))] for row in rows], dtype=torch.bool)
