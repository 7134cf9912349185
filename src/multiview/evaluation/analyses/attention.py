"""How much the views of a passage differ: in what they attend to (CAMVR Eq. 14, Table 3), and in their cosine."""

from collections.abc import Iterator

import numpy as np
import torch

from multiview import metric_names
from multiview.evaluation.analyses.analysis_input import AnalysisInput, Findings, NotApplicable, Table
from multiview.evaluation.analyses.matrices import mean_cosines, off_diagonal, pair_means, table_of
from multiview.model.batch import make_batch, to_device

PASSAGES = 1000
"""Random passages whose attention is compared (CAMVR 4.4)."""
SEQUENCES = 8
"""Number of sequences in a batch, whose attention in every layer is held in memory."""
FLOOR = 1e-12
"""Smallest attention: float32 attention underflows to 0, which has no logarithm."""


def view_attention(attention: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Attention α [views, L] float64 of each view, which sums to 1 over the L tokens of a sequence.

    `attention` [L, L] is that of one head, or the mean over heads, without padding. A view attends as its tokens do on
    average, by the `weights` [views, L] of `Batch`.
    """
    weights = np.asarray(weights, np.float64)
    rows = (weights / weights.sum(axis=1, keepdims=True)) @ np.asarray(attention, np.float64)
    rows = np.maximum(rows, FLOOR)
    return rows / rows.sum(axis=1, keepdims=True)


def divergence(alpha: np.ndarray) -> np.ndarray:
    """D [views, views] of attention vectors [views, L]: D(i, j) = Σ_l α_jl log(α_jl / α_il) (Eq. 14)."""
    logs = np.log(alpha)
    return (alpha[None] * (logs[None] - logs[:, None])).sum(axis=2)


def attention(given: AnalysisInput) -> Findings:
    """Table `attention`: row i, column j is D(i, j), a mean over passages, of attention averaged over heads first
    (ours; CAMVR does not say). The views of empty snippets are included, as in the paper. Metrics
    `attention_divergence` (the mean over i ≠ j), `_min` and `_max`.
    """
    rows = given.random_rows(PASSAGES)
    means = pair_means(_divergences(given, rows), given.layout.max_views)
    if not (metrics := off_diagonal("attention_divergence", means)):
        raise NotApplicable("no sequence has two views")
    caption = "Mean divergence between each two views of a sequence, over random passages."
    return Findings(metrics, {"attention": Table(caption, table_of(means))})


def _divergences(given: AnalysisInput, passage_rows: np.ndarray) -> Iterator[np.ndarray]:
    """D [1, views, views] of each sequence with at least two views, NaN for views that it lacks; sequences of similar
    length share a batch, with little padding."""
    layout, encoder = given.layout, given.encoder
    read = given.indexed_passages.read(passage_rows)
    sequences = [each for indexed in read for each in indexed.sequences if len(each.views) > 1]
    sequences.sort(key=lambda sequence: len(sequence.input_ids))
    model = encoder.model.with_eager_attention()
    for start in range(0, len(sequences), SEQUENCES):
        members = sequences[start : start + SEQUENCES]
        batch = make_batch(members, model.tokenizer.pad_token_id, layout.max_views)
        try:
            with torch.inference_mode():
                heads = model.passage_attention(to_device(batch, encoder.device)).float().cpu().numpy()
        except ValueError as error:
            raise NotApplicable(str(error)) from None
        for sequence, head, weights in zip(members, heads, batch["weights"].numpy(), strict=True):
            tokens, views = len(sequence.input_ids), len(sequence.views)
            mean = head[:, :tokens, :tokens].astype(np.float64).mean(axis=0)
            padded = np.full((1, layout.max_views, layout.max_views), np.nan)
            padded[0, :views, :views] = divergence(view_attention(mean, weights[:views, :tokens]))
            yield padded
        given.events.progress(start + len(members), len(sequences), "sequences' attention")


def cosine(given: AnalysisInput) -> Findings:
    """Table `cosine`: view, view_1 … view_n. Metrics `view_cosine` (mean over the pairs i ≠ j), `_min` and `_max`."""
    views = given.ordered_views()
    means = mean_cosines(given.index.views, given.index.stored_counts)[:views, :views]
    caption = "Mean cosine between the views i and j of a passage, over the passages that have both."
    tables = {"cosine": Table(caption, table_of(means))}
    return Findings(off_diagonal(metric_names.VIEW_COSINE, means), tables)
