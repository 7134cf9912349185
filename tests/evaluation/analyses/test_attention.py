"""Attention divergence (CAMVR Eq. 14), beside the plain formula in float64."""

import math

import numpy as np
import pytest
import torch
from transformers import AutoModel

from multiview.evaluation.analyses import attention as module
from multiview.evaluation.analyses.attention import attention, divergence, view_attention
from multiview.model.batch import make_batch


def plainly(alpha) -> list[list[float]]:
    """D(i, j) = Σ_l α_jl log(α_jl / α_il)."""
    return [[sum(q * math.log(q / p) for p, q in zip(a, b, strict=True)) for b in alpha] for a in alpha]


def test_divergence_of_random_attention():
    rng = np.random.default_rng(0)
    alpha = rng.dirichlet(np.ones(20), 5)
    found = divergence(alpha)
    np.testing.assert_allclose(found, plainly(alpha.tolist()), atol=1e-12)
    assert (found >= 0).all() and (np.diag(found) == 0).all()
    assert abs(found - found.T).max() > 0.01, "it is no distance"


def test_no_attention_is_floored_and_equal_attention_does_not_diverge():
    rows = np.array([[1, 0, 0], [0, 1, 0], [1, 0, 0]], np.float32)
    alpha = view_attention(rows, np.eye(3))
    assert alpha.dtype == np.float64
    np.testing.assert_allclose(alpha.sum(axis=1), 1, rtol=1e-12)
    found = divergence(alpha)
    assert found[0, 2] == 0 and found[0, 1] == pytest.approx(math.log(1e12), rel=1e-6)


def test_divergence_of_a_model_s_last_layer(padded):
    """Each passage alone, without padding tokens, by transformers itself; padding views count."""
    model = AutoModel.from_pretrained(padded.folder / "model" / "passage", attn_implementation="eager").eval()
    subject = padded.subject()
    matrices = []
    for passage in padded.passages:
        (sequence,) = subject.layout.passage(passage)
        with torch.inference_mode():
            ids = torch.tensor([sequence.input_ids])
            layers = model(input_ids=ids, output_attentions=True).attentions
        last = layers[-1][0].double().numpy()
        runs = [[last[:, start:stop].mean(axis=1) for start, stop in view.runs] for view in sequence.views]
        maps = np.stack([np.mean(view, axis=0) for view in runs], axis=1)
        matrices.append(plainly(maps.mean(axis=0).tolist()))
    findings = attention(subject)
    rows = findings.tables["attention"].rows.to_pylist()
    found = np.array([[row[f"view_{j}"] for j in range(1, 5)] for row in rows])
    expected = np.mean(matrices, axis=0)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-7)
    others = expected[~np.eye(4, dtype=bool)]
    assert findings.metrics["attention_divergence"] == pytest.approx(others.mean(), rel=1e-4)
    assert findings.metrics["attention_divergence_max"] == pytest.approx(others.max(), rel=1e-4)
    assert others.min() > 1e-3, "these views attend to different tokens"


def test_only_so_many_passages_are_drawn(camvr, monkeypatch):
    whole = attention(camvr.subject()).metrics
    monkeypatch.setattr(module, "PASSAGES", 3)
    assert attention(camvr.subject()).metrics == attention(camvr.subject()).metrics != whole


def test_the_model_encodes_as_before(camvr):
    encoder = camvr.subject().encoder
    sequences = [s for passage in camvr.passages[:2] for s in encoder.layout.passage(passage)]
    batch = make_batch(sequences, 0, 4)
    with torch.inference_mode():
        before = encoder.model.encode_passages(batch)
        seen = encoder.model.with_eager_attention().passage_attention(batch)
        assert torch.equal(encoder.model.encode_passages(batch), before)
    assert seen.shape == (2, 4, batch["input_ids"].shape[1], batch["input_ids"].shape[1])
    np.testing.assert_allclose(seen.sum(dim=-1).numpy(), 1, rtol=1e-5)
