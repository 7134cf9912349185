"""Contrastive loss over multi-view passages, with MVR's local term, in-sequence negatives, and distillation from a cross-encoder.

    L = -log( exp(s+/τ) / ( exp(s+/τ) + Σ exp(f(q,d-)/τ) ) )  -  λ · log( exp(f(q,d+)/τ) / Σ_i exp(f_i(q,d+)/τ) )

The modes of s+:

- "max" (MVR Eq. 5-7): s+ = f(q,d+), the max over views.
- "answer" (CAMVR Eq. 13): s+ is the score of the answer's view.
- "both" (ours): the first term is the mean of those of "answer" and "max".
- "each" (MVR 5.1): the first term is the mean over all pairs of a question and a view of d+ that holds its answer.
  s+ is the score of this view, and the sum runs over every view of every negative.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from multiview.config import Temperature

PositiveMode = Literal["max", "answer", "both", "each"]

PAPER_EPOCHS = 40
"""Epochs of the papers' schedule; the clock `progress` covers all of them in a run of any length."""


def temperature(settings: Temperature, step: int, steps_per_epoch: int, total_steps: int) -> float:
    """Returns τ at `step` (from 0): fixed, or max(floor, exp(-alpha t)) (MVR Eq. 8).

    By the clock `epoch`, t is the number of the epoch, from 0 (MVR). By the clock `progress`, t = 40 · step / all steps.
    """
    if settings.schedule == "fixed":
        return settings.value
    t = step // steps_per_epoch if settings.clock == "epoch" else PAPER_EPOCHS * step / total_steps
    return max(settings.floor, math.exp(-settings.alpha * t))


@dataclass(frozen=True)
class LossParts:
    """Components of a step's loss: detached means over the batch, except `wins`."""

    contrastive: Tensor
    """The first term."""
    local: Tensor
    """The second term without λ: 0 when one view has all the weight, log n when the n views have collapsed."""
    fallback: Tensor
    """Share of questions without a known answer view, for which s+ is the max."""
    correct: Tensor
    """Share of questions whose s+ scores above every negative."""
    wins: Tensor
    """[V]: per view of the positive, the share of questions for which it scores highest; the first of equals wins."""


def contrastive_loss(
    scores: Tensor,
    view_mask: Tensor,
    positive: Tensor,
    excluded: Tensor,
    temperature: float,
    *,
    real_views: Tensor,
    answer_views: Tensor | None = None,
    positive_mode: PositiveMode = "max",
    local_weight: float = 0.0,
) -> tuple[Tensor, LossParts]:
    """Returns the mean loss over B questions against P passages of up to V views each, and its components.

    - `scores` [B, P, V]: inner products.
    - `view_mask` bool [P, V]: the views that exist; `real_views` bool [P, V]: those that are not padding. Every passage
      has at least one of each.
    - `positive` int64 [B]: index of each question's positive.
    - `excluded` bool [B, P]: passages, apart from the positive, that are not negatives of the question.
    - `answer_views` bool [B, V]: the views of the positive whose snippet is the answer's.

    The score of a negative is the max over all of its views, padding included. With `positive_mode` "answer" and
    "both", the answer's view is the first of the answer views. With "each" every answer view is a separate
    positive. In these modes, the max over the real views stands in for an answer view that is missing.

    All values are computed in float32, and no ratio of exponentials is ever formed.
    """
    with torch.autocast(scores.device.type, enabled=False):
        scores = (scores.float() / temperature).masked_fill(~view_mask, -torch.inf)
        # amax shares the gradient among equal maxima, so that views which tie at the start are all trained.
        passages = scores.amax(dim=-1)
        rows = torch.arange(len(positive), device=scores.device)
        view_scores = scores[rows, positive]
        if positive_mode == "max":
            target = passages[rows, positive]
            answers = torch.zeros_like(view_scores, dtype=torch.bool)
            known = torch.ones_like(positive, dtype=torch.bool)
        else:
            if answer_views is None:
                raise ValueError(f"positive_mode {positive_mode!r} needs answer_views")
            answers = answer_views & view_mask[positive]
            known = answers.any(dim=-1)
            target = _answer_scores(view_scores, answers, known, real_views[positive])
        no_negative = excluded.scatter(1, positive[:, None], True)
        targets = [target]
        if positive_mode == "both":
            targets.append(passages[rows, positive])
        if positive_mode == "each":
            # Pairs of a question and one of its positive views, each against all views of the negatives.
            fallback = ~known[:, None] & real_views[positive] & (view_scores == target[:, None])
            rows, columns = (answers | fallback).nonzero(as_tuple=True)
            targets = [view_scores[rows, columns]]
            negatives = scores.masked_fill(no_negative[:, :, None], -torch.inf).flatten(1)
        else:
            negatives = passages.masked_fill(no_negative, -torch.inf)
        logits = torch.stack([torch.cat([each[:, None], negatives[rows]], dim=1) for each in targets])
        contrastive = -torch.log_softmax(logits, dim=-1)[..., 0].mean()
        local = (torch.logsumexp(view_scores, dim=-1) - view_scores.amax(dim=-1)).mean()
        # Without λ the local term is only reported; a gradient times 0 would be 0, but not free.
        loss = contrastive + local_weight * local if local_weight else contrastive
    # A GPU would have to stop for `bincount`.
    views = torch.arange(view_scores.shape[1], device=scores.device)
    winners = view_scores.argmax(dim=-1, keepdim=True) == views
    parts = LossParts(
        contrastive=contrastive.detach(),
        local=local.detach(),
        fallback=1 - known.float().mean(),
        correct=(target > negatives.amax(dim=1)).float().mean(),
        wins=winners.sum(dim=0) / len(view_scores),
    )
    return loss, parts


def in_sequence_loss(
    scores: Tensor, positive: Tensor, answer_views: Tensor, other_views: Tensor, temperature: float
) -> Tensor:
    """Returns the mean loss of the answer's views against those of their passage that hold none (InSeNT's in-sequence negatives).

        -log( exp(f_a(q,d+)/τ) / ( exp(f_a(q,d+)/τ) + Σ_i exp(f_i(q,d+)/τ) ) )

    a runs over the `answer_views` [B, V] of the questions' positives, i over their `other_views` [B, V].
    `scores` [B, P, V] and `positive` [B] are those of `contrastive_loss`. Without any answer view the loss is 0.
    With the winning view as a, and all the others as i, this would be the local term.

    All values are computed in float32.
    """
    with torch.autocast(scores.device.type, enabled=False):
        own = scores.float()[torch.arange(len(positive), device=scores.device), positive] / temperature
        rows, views = answer_views.nonzero(as_tuple=True)
        others = own.masked_fill(~other_views, -torch.inf)[rows]
        logits = torch.cat([own[rows, views][:, None], others], dim=1)
        return -torch.log_softmax(logits, dim=-1)[:, 0].sum() / max(1, len(rows))


def nested_loss(
    scores: Tensor, view_mask: Tensor, *others: Any, real_views: Tensor, **options: Any
) -> tuple[Tensor, LossParts]:
    """Returns the mean of `contrastive_loss` over nested views: the first 1, 2, 4, … and all V (MetaEmbed), equally weighted.

    The components are those of all V. Every passage's first view is real; `positive_mode` is "max".
    """
    width = scores.shape[-1]
    sizes = [*(2**i for i in range((width - 1).bit_length())), width]
    each = [
        contrastive_loss(scores[..., :k], view_mask[:, :k], *others, real_views=real_views[:, :k], **options)
        for k in sizes
    ]
    return torch.stack([loss for loss, _ in each]).mean(), each[-1][1]


def distillation_loss(
    scores: Tensor, view_mask: Tensor, teacher: Tensor, temperature: float, teacher_temperature: float
) -> Tensor:
    """Returns the mean over B questions of the model's divergence from a teacher, over each question's own list (ours).

        KL( p ‖ s ) = Σ_d p(d) · log( p(d) / s(d) ),   p = softmax( t(q,·)/τ_t ),   s = softmax( f(q,·)/τ )

    The list consists of the passages d with a finite logit t in `teacher` [B, P]: the positive and the question's own hard
    negatives. f is the max of `scores` [B, P, V] over the views in `view_mask` [P, V]. A list of fewer than two
    passages adds 0. τ_t is `teacher_temperature`, τ the `temperature` of the contrastive loss.

    All values are computed in float32.
    """
    with torch.autocast(scores.device.type, enabled=False):
        listed = torch.isfinite(teacher)
        compared = listed.sum(dim=-1) > 1
        listed, teacher = listed[compared], teacher[compared] / teacher_temperature
        passages = (scores.float() / temperature).masked_fill(~view_mask, -torch.inf).amax(dim=-1)[compared]
        log_p, log_s = (
            torch.log_softmax(logits.masked_fill(~listed, -torch.inf), dim=-1).masked_fill(~listed, 0)
            for logits in (teacher, passages)
        )
        return (log_p.exp() * listed * (log_p - log_s)).sum() / len(scores)


def _answer_scores(view_scores: Tensor, answers: Tensor, known: Tensor, real: Tensor) -> Tensor:
    """Returns s+ [B]: the answer view's score among the positive's `view_scores` [B, V].

    Where no answer view is known, s+ is the max over the `real` views.
    """
    # Gathered, not multiplied by a one-hot vector, because masked scores are -inf.
    first = view_scores.gather(1, answers.int().argmax(dim=-1, keepdim=True))[:, 0]
    return torch.where(known, first, view_scores.masked_fill(~real, -torch.inf).amax(dim=-1))
