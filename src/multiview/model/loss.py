"""The contrastive loss over multi-view passages, with MVR's local term.

    L = -log( exp(s+/τ) / ( exp(s+/τ) + Σ exp(f(q,d-)/τ) ) )  -  λ · log( exp(f(q,d+)/τ) / Σ_i exp(f_i(q,d+)/τ) )

MVR Eq. 5-7 with s+ = f(q,d+) = max over views; CAMVR Eq. 13 with s+ = the score of the answer's view; with
"each" (MVR 5.1) the first term is the mean over all pairs of a question and a view of d+ that holds its
answer, s+ being that view's score, and the sum runs over every view of every negative.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor


@dataclass(frozen=True)
class LossParts:
    """What a step's loss was made of: detached means over the batch, except `wins`."""

    contrastive: Tensor
    """The first term."""
    local: Tensor
    """The second term without λ: 0 when one view takes all, log n when views have collapsed."""
    fallback: Tensor
    """Share of questions without a known answer view, whose s+ fell back to the max."""
    correct: Tensor
    """Share of questions whose s+ scores above every negative."""
    wins: Tensor
    """[V]: share of questions for which each view of the positive scores highest; the first of equals."""


def contrastive_loss(
    scores: Tensor,
    view_mask: Tensor,
    positive: Tensor,
    excluded: Tensor,
    temperature: float,
    *,
    real_views: Tensor,
    answer_views: Tensor | None = None,
    positive_mode: Literal["max", "answer", "each"] = "max",
    answer_view: Literal["first", "best"] = "first",
    local_weight: float = 0.0,
) -> tuple[Tensor, LossParts]:
    """Mean loss over B questions against P passages of up to V views each.

    `scores` [B, P, V] are inner products; `view_mask` bool [P, V] says which views exist, `real_views`
    [P, V] which of them are not padding: every passage has one of each. `positive` int64 [B] is each
    question's own passage; `excluded` bool [B, P] marks passages that are positives of the same question
    and so no negatives. A negative scores its max over all views, padding included. `answer_views`
    bool [B, V] marks the views of the positive whose snippet holds the answer; with `positive_mode`
    "answer", s+ is the first of them or the best, and the max over real views where there is none; with
    "each" every one of them is a positive of its own, and that max the only one where there is none.
    All is computed in float32, and no ratio of exponentials is ever formed.
    """
    with torch.autocast(scores.device.type, enabled=False):
        scores = (scores.float() / temperature).masked_fill(~view_mask, -torch.inf)
        # amax shares the gradient among equal maxima: views that tie at the start are all trained.
        passages = scores.amax(dim=-1)
        rows = torch.arange(len(positive), device=scores.device)
        own = scores[rows, positive]
        if positive_mode == "max":
            target = passages[rows, positive]
            answers = torch.zeros_like(own, dtype=torch.bool)
            known = torch.ones_like(positive, dtype=torch.bool)
        else:
            if answer_views is None:
                raise ValueError(f"positive_mode {positive_mode!r} needs answer_views")
            answers = answer_views & view_mask[positive]
            known = answers.any(dim=-1)
            target = _answer_scores(own, answers, known, real_views[positive], answer_view)
        no_negative = excluded.scatter(1, positive[:, None], True)
        if positive_mode == "each":
            # Pairs of a question and a positive view of it, each against all views of the negatives.
            fallback = ~known[:, None] & real_views[positive] & (own == target[:, None])
            rows, columns = (answers | fallback).nonzero(as_tuple=True)
            target_scores = own[rows, columns]
            negatives = scores.masked_fill(no_negative[:, :, None], -torch.inf).flatten(1)
        else:
            target_scores = target
            negatives = passages.masked_fill(no_negative, -torch.inf)
        logits = torch.cat([target_scores[:, None], negatives[rows]], dim=1)
        contrastive = -torch.log_softmax(logits, dim=1)[:, 0].mean()
        local = (torch.logsumexp(own, dim=-1) - own.amax(dim=-1)).mean()
        # Without λ the local term is only watched; 0 · gradient would still be 0, but not free.
        loss = contrastive + local_weight * local if local_weight else contrastive
    parts = LossParts(
        contrastive=contrastive.detach(),
        local=local.detach(),
        fallback=1 - known.float().mean(),
        correct=(target > negatives.amax(dim=1)).float().mean(),
        wins=torch.bincount(own.argmax(dim=-1), minlength=own.shape[1]) / len(own),
    )
    return loss, parts


def _answer_scores(
    own: Tensor, answers: Tensor, known: Tensor, real: Tensor, answer_view: Literal["first", "best"]
) -> Tensor:
    """[B]: the score of the answer's view among the positive's `own` [B, V]; the max over `real` ones if unknown."""
    if answer_view == "best":
        candidates = torch.where(known[:, None], answers, real)
        return own.masked_fill(~candidates, -torch.inf).amax(dim=-1)
    # Gathered, never multiplied by a one-hot: masked scores are -inf.
    first = own.gather(1, answers.int().argmax(dim=-1, keepdim=True))[:, 0]
    return torch.where(known, first, own.masked_fill(~real, -torch.inf).amax(dim=-1))
