"""Kernels multiply within the rounding that they state, and whichever multiplies, the passages found are the same."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.index import exact, floors, kernels, products, proposals
from multiview.index.exact import top_passages_by, view_norms
from multiview.index.kernels import BFloat16, Float16, Float32, multiplies_float16
from multiview.index.rounding import LONGEST, ViewNorms
from multiview.model.onednn import multiplies

needs_onednn = pytest.mark.skipif(kernels.onednn_product() is None, reason="torch has no oneDNN here")
needs_bfloat16 = pytest.mark.skipif(
    not multiplies(torch.bfloat16), reason="oneDNN has no products of bfloat16 on this processor"
)


def vectors(rng, kind: str, shape: tuple[int, int]) -> np.ndarray:
    """Views, float16: of length 1, large, of the least numbers of float16, or near each other."""
    drawn = rng.standard_normal(shape)
    if kind == "near":
        drawn = rng.standard_normal(shape[1]) + 0.003 * drawn
    norms = np.linalg.norm(drawn, axis=1, keepdims=True)
    scale = {"large": 20_000.0, "least": 2.0**-22}.get(kind, 1 / norms)
    return (drawn * scale).clip(-65504, 65504).astype(np.float16)


def questions(rng, scale: float, shape: tuple[int, int]) -> np.ndarray:
    """Vectors of questions with zeros, one of them nothing else."""
    drawn = rng.standard_normal(shape).astype(np.float32) * np.float32(scale)
    drawn[rng.random(shape) < 0.1] = 0
    drawn[-1] = 0
    return drawn


kinds = st.sampled_from(["unit", "large", "least", "near"])
scales = st.sampled_from([1e-44, 1e-37, 1e-20, 1.0, 1e8, 1e30])


def half(queries: np.ndarray, views: ViewNorms) -> BFloat16:
    onednn = kernels.onednn_product()
    assert onednn
    return BFloat16(queries, views, onednn)


@needs_onednn
@pytest.mark.parametrize("in_float32", [True, pytest.param(False, marks=needs_bfloat16)])
@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32), kinds, scales, st.sampled_from([1, 3, 17, 384]), st.booleans())
def test_products_are_as_near_to_scores_as_kernels_state(in_float32, seed, kind, scale, dim, loss_known):
    rng = np.random.default_rng(seed)
    views, queries = vectors(rng, kind, (40, dim)), questions(rng, scale, (9, dim))
    norms = view_norms(views)
    kernel = (
        Float32(queries, norms.longest, torch.device("cpu"), kernels.onednn_product())
        if in_float32
        else half(queries, norms if loss_known else ViewNorms.from_header({LONGEST: norms.longest}))
    )
    if isinstance(kernel, BFloat16) and not kernel.finite:
        return
    assert_as_near_as_stated(kernel, views, queries)


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 2**32), kinds, scales, st.sampled_from([32, 96, 384]))
def test_products_in_float16_are_as_near_to_scores_as_stated(seed, kind, scale, dim):
    rng = np.random.default_rng(seed)
    views = vectors(rng, kind, (40, dim))
    for query in questions(rng, scale, (2, dim))[:, None]:
        kernel = Float16(query, view_norms(views).longest)
        assert_as_near_as_stated(kernel, views, query)
        assert np.isfinite(kernel.multiplier(50)(torch.from_numpy(views)).numpy()).all()


def assert_as_near_as_stated(kernel: kernels.Kernel, views: np.ndarray, queries: np.ndarray) -> None:
    found = kernel.multiplier(50)(torch.from_numpy(views)).double().numpy()[:, : len(queries)]
    error = np.abs(found - views.astype(np.float64) @ queries.astype(np.float64).T)
    # numpy's products in float64 round, too.
    allowed = kernel.rounding.absolute + kernel.rounding.relative * np.abs(found)
    assert (error <= allowed * (1 + 1e-9)).all()


@needs_bfloat16
@settings(max_examples=120, deadline=None)
@given(
    st.integers(0, 2**32),
    kinds,
    scales,
    st.sampled_from([1, 5, 40, 2000]),
    st.sampled_from([1, 8, 20]),
    st.sampled_from([None, 0.3]),
    st.sampled_from([0, 4, 10**9]),
    st.sampled_from([4.0, 0.0, -100.0]),
)
def test_bfloat16_and_float32_find_the_same_to_the_bit(
    seed, kind, scale, k, many, share, crowded, deviations
):
    """With views that are equal or differ by a bit, passages of many views, floors that are right or too high, and with
    kernels that give up or never do."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 5, 150)
    views = vectors(rng, kind, (int(counts.sum()), 24))
    copied = rng.integers(0, len(views), (2, 60))
    views[copied[0]] = views[copied[1]]
    changed = rng.integers(0, len(views), 60)
    views[changed, 0] = np.nextafter(views[changed, 0], np.float16(0))
    queries = questions(rng, scale, (many, 24))
    among = None if share is None else rng.random(150) < share
    args = views, np.cumsum(counts) - counts, rng.permutation(150), queries, k, [(0, None), (1, 3)]
    found = []
    for able in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kernels, "multiplies_bfloat16", lambda able=able: able)
            patch.setattr(kernels, "ONEDNN_QUESTIONS", 1)
            patch.setattr(kernels, "BLOCK_BYTES", 1 << 12)
            patch.setattr(products, "SCORES_BYTES", 1 << 12)
            patch.setattr(exact, "GUESSED_FOR", 1)
            patch.setattr(exact, "SCORED_BYTES", 1 << 12)
            patch.setattr(floors, "EVERY", 2)
            patch.setattr(floors, "SHARE", 0)
            patch.setattr(floors, "DEVIATIONS", deviations)
            patch.setattr(proposals, "CROWDED", crowded)
            patch.setattr(proposals, "FEW", 0)
            patch.setattr(exact, "PROPOSED_AT_ONCE", 10)
            found.append(top_passages_by(*args, among=among))
    for coarse, fine in zip(*found, strict=True):
        assert coarse.passages.tolist() == fine.passages.tolist()
        assert coarse.scores.tobytes() == fine.scores.tobytes()
        assert coarse.winning_views.tolist() == fine.winning_views.tolist()
    for question, query in enumerate(queries.astype(np.float64)):
        scores = np.einsum("nd,d->n", views.astype(np.float64), query)
        best = np.maximum.reduceat(scores, args[1])
        allowed = np.arange(150) if among is None else np.flatnonzero(among)
        order = allowed[np.lexsort((args[2][allowed], -best[allowed]))][:k]
        assert found[0][0].passages[question, : len(order)].tolist() == order.tolist()
        assert (
            found[0][0].scores[question, : len(order)].tobytes() == best[order].astype(np.float32).tobytes()
        )


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 2**32),
    kinds,
    scales,
    st.sampled_from([1, 5, 40, 2000]),
    st.sampled_from([1 << 12, 1 << 30]),
    st.sampled_from([-1, 4]),
)
def test_one_question_finds_the_same_in_float16_and_float32(seed, kind, scale, k, size, crowded):
    """To the bit, and what a search by float64 alone finds; with views that are equal or differ by a bit, and with
    products in float16 that are given up."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 5, 150)
    views = vectors(rng, kind, (int(counts.sum()), 64))
    copied = rng.integers(0, len(views), (2, 60))
    views[copied[0]] = views[copied[1]]
    changed = rng.integers(0, len(views), 60)
    views[changed, 0] = np.nextafter(views[changed, 0], np.float16(0))
    (query, _) = questions(rng, scale, (2, 64))
    offsets, ties = np.cumsum(counts) - counts, rng.permutation(150)
    found = []
    for able in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kernels, "multiplies_float16", lambda able=able: able)
            patch.setattr(kernels, "STREAMED_BYTES", size)
            patch.setattr(proposals, "CROWDED", crowded)
            patch.setattr(proposals, "FEW", crowded)
            patch.setattr(products, "SCORES_BYTES", size)
            found += top_passages_by(views, offsets, ties, query[None], k, [(0, None)])
    coarse, fine = found
    assert coarse.passages.tolist() == fine.passages.tolist()
    assert coarse.scores.tobytes() == fine.scores.tobytes()
    assert coarse.winning_views.tolist() == fine.winning_views.tolist()
    best = np.maximum.reduceat(
        np.einsum("nd,d->n", views.astype(np.float64), query.astype(np.float64)), offsets
    )
    assert coarse.passages[0, :150].tolist() == np.lexsort((ties, -best))[:k].tolist()


@pytest.mark.parametrize(
    ("many", "dim", "able", "in_float16"),
    [(1, 64, True, True), (1, 64, False, False), (1, 48, True, False), (2, 64, True, False)],
)
def test_float16_is_for_one_question_whose_width_torch_does_not_round_otherwise(
    many, dim, able, in_float16, monkeypatch
):
    monkeypatch.setattr(kernels, "multiplies_float16", lambda: able)
    chosen = kernels.kernels(np.ones((many, dim), np.float32), ViewNorms(1.0, 0.0), torch.device("cpu"))
    assert [type(kernel) for kernel in chosen] == [Float16, Float32][not in_float16 :]


def test_a_torch_that_may_sum_in_float16_is_not_asked_to(monkeypatch):
    monkeypatch.setattr(kernels, "_float16_is_faster", lambda: True)
    assert multiplies_float16()
    monkeypatch.setattr(torch._C, "_get_cpu_allow_fp16_reduced_precision_reduction", lambda: True)
    assert not multiplies_float16()


@pytest.mark.parametrize(
    ("many", "able", "expected"),
    [
        (kernels.ONEDNN_QUESTIONS, True, [BFloat16, Float32]),
        (kernels.ONEDNN_QUESTIONS, False, [Float32]),
        (1, True, [Float32]),
    ],
)
@needs_onednn
def test_bfloat16_is_for_processors_that_have_it_and_several_questions(many, able, expected, monkeypatch):
    monkeypatch.setattr(kernels, "multiplies_bfloat16", lambda: able)
    chosen = kernels.kernels(np.ones((many, 4), np.float32), ViewNorms(1.0, 0.0), torch.device("cpu"))
    assert [type(kernel) for kernel in chosen] == expected


@needs_onednn
def test_vectors_too_long_for_bfloat16_are_multiplied_in_float32(monkeypatch):
    monkeypatch.setattr(kernels, "multiplies_bfloat16", lambda: True)
    queries = np.full((kernels.ONEDNN_QUESTIONS, 4), np.finfo(np.float32).max)
    for longest in (0.0, 1.0):
        (kernel,) = kernels.kernels(queries, ViewNorms(longest, 0.0), torch.device("cpu"))
        assert isinstance(kernel, Float32)


def test_precision_that_others_chose_is_kept_and_not_used():
    torch.set_float32_matmul_precision("medium")
    try:
        with kernels.whole_float32():
            assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
