"""MVR Eq. 5-8 and 5.1, and CAMVR Eq. 13, beside plain formulas in float64."""

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.config import Temperature
from multiview.model.batch import pool
from multiview.model.loss import (
    PositiveMode,
    contrastive_loss,
    distillation_loss,
    in_sequence_loss,
    nested_loss,
    temperature,
)


def plain_loss(case: dict[str, Any], tau: float, mode: str, weight: float) -> float:
    """The formula read off the page, one question and one passage at a time."""
    total, pairs = 0.0, []
    for b, d in enumerate(case["positive"]):
        f = [
            [case["scores"][b][p][v] for v in range(case["V"]) if case["mask"][p][v]]
            for p in range(case["P"])
        ]
        marked = [case["scores"][b][d][v] for v in range(case["V"]) if case["answers"][b][v]]
        real = [case["scores"][b][d][v] for v in range(case["V"]) if case["real"][d][v]]
        targets = [max(f[d])]
        if mode in ("answer", "both"):
            of_answer = marked[0] if marked else max(real)
            targets = [of_answer, *targets] if mode == "both" else [of_answer]
        negatives = [max(f[p]) for p in range(case["P"]) if p != d and not case["excluded"][b][p]]
        if mode == "each":
            every = [s for p in range(case["P"]) if p != d and not case["excluded"][b][p] for s in f[p]]
            for positive in marked or [max(real)]:
                pairs.append(math.log(sum(math.exp((s - positive) / tau) for s in [positive, *every])))
        else:
            for best in targets:
                share = sum(math.exp((s - best) / tau) for s in [best, *negatives])
                total += math.log(share) / len(targets)
        total += weight * math.log(sum(math.exp((s - max(f[d])) / tau) for s in f[d]))
    return total / len(case["positive"]) + sum(pairs) / max(1, len(pairs))


def random_case(seed: int) -> dict[str, Any]:
    """Views that are missing, padding, answers and exclusions at random; every passage has a real view. No two scores are
    so near that float32 or a small step changes which is higher."""
    draw = np.random.default_rng(seed)
    B, P, V = int(draw.integers(1, 5)), int(draw.integers(5, 9)), int(draw.integers(1, 6))
    mask = draw.random((P, V)) < 0.7
    mask[:, 0] = True
    real = mask & (draw.random((P, V)) < 0.7)
    real[:, 0] = True
    positive = draw.permutation(P)[:B]
    apart = (draw.permutation(B * P * V) + draw.uniform(0, 0.5, B * P * V)) / (B * P * V)
    return {
        "P": P,
        "V": V,
        "scores": draw.choice([-90, 0, 90]) + 8 * apart.reshape(B, P, V) - 4,
        "mask": mask,
        "real": real,
        "positive": positive,
        "excluded": draw.random((B, P)) < 0.2,
        "answers": real[positive] & (draw.random((B, V)) < 0.4),
    }


def run(
    case: dict[str, Any],
    tau: float,
    scores: torch.Tensor | None = None,
    dtype: torch.dtype = torch.float32,
    loss: Any = contrastive_loss,
    **options: Any,
) -> Any:
    return loss(
        torch.tensor(case["scores"], dtype=dtype) if scores is None else scores,
        torch.tensor(case["mask"]),
        torch.tensor(case["positive"]),
        torch.tensor(case["excluded"]),
        tau,
        real_views=torch.tensor(case["real"]),
        **options,
    )


def assert_formula(loss_of: Callable[[Any], Any], formula: Callable[[], float], case: dict[str, Any]) -> None:
    """A loss has the value of a plain formula, and its gradient: in random directions, which no score's is missing from,
    by central differences in float64."""
    scores = torch.tensor(case["scores"], dtype=torch.float32, requires_grad=True)
    stood = case["scores"] = scores.detach().double().numpy()  # as the loss sees them, after rounding
    loss = loss_of(scores)
    assert loss.item() == pytest.approx(formula(), rel=1e-4, abs=1e-4)
    loss.backward()
    assert scores.grad is not None
    step, draw = 1e-7, np.random.default_rng(0)
    for _ in range(3):
        direction, slope = draw.normal(size=stood.shape), 0.0
        for sign in (1, -1):
            case["scores"] = stood + sign * step * direction
            slope += sign * formula() / (2 * step)
        assert (scores.grad.numpy() * direction).sum() == pytest.approx(slope, abs=3e-4)
    case["scores"] = stood


TAUS, WEIGHTS = st.sampled_from([0.3, 0.7, 1.0]), st.sampled_from([0.0, 0.01, 0.5])


@given(st.integers(0, 10**6), TAUS, st.sampled_from(["max", "answer", "both", "each"]), WEIGHTS)
@settings(max_examples=100, deadline=None)
def test_the_loss_and_its_gradient_are_those_of_the_papers_formula(
    seed: int, tau: float, mode: str, weight: float
) -> None:
    case = random_case(seed)
    chosen = {"positive_mode": mode, "local_weight": weight, "answer_views": torch.tensor(case["answers"])}
    assert_formula(
        lambda scores: run(case, tau, scores, **chosen)[0], lambda: plain_loss(case, tau, mode, weight), case
    )
    _, parts = run(case, tau, **chosen)
    local = plain_loss(case, tau, mode, 1.0) - plain_loss(case, tau, mode, 0.0)
    assert parts.local.item() == pytest.approx(local, rel=1e-4, abs=1e-4)
    known = case["answers"].any(axis=1).mean() if mode != "max" else 1.0
    assert parts.fallback.item() == pytest.approx(1 - known, abs=1e-6)
    seen = np.where(case["mask"], case["scores"], -np.inf)
    rows, positive, answers = np.arange(len(case["positive"])), case["positive"], case["answers"]
    own = seen[rows, positive]
    wins = np.bincount(own.argmax(axis=1), minlength=case["V"]) / len(own)
    assert parts.wins.tolist() == pytest.approx(wins.tolist())
    first = answers & (answers.cumsum(axis=1) == 1)
    right = np.where(answers.any(axis=1, keepdims=True), first, case["real"][positive]) | (mode == "max")
    target = np.where(right, own, -np.inf).max(axis=1)
    case["excluded"][rows, positive] = True
    best_negative = np.where(case["excluded"], -np.inf, seen.max(axis=2)).max(axis=1)
    assert parts.correct.item() == pytest.approx((target > best_negative).mean())


def plain_in_sequence(case: dict[str, Any], tau: float) -> float:
    """The formula, one view of the answer at a time."""
    pairs = []
    for b, d in enumerate(case["positive"]):
        f, answers = case["scores"][b][d] / tau, case["answers"][b]
        others = f[case["others"][b]]
        pairs += [math.log(sum(math.exp(s - f[v]) for s in [f[v], *others])) for v in np.flatnonzero(answers)]
    return sum(pairs) / max(1, len(pairs))


@given(st.integers(0, 10**6), TAUS)
@settings(max_examples=60, deadline=None)
def test_in_sequence_negatives_and_their_gradient_are_those_of_the_formula(seed: int, tau: float) -> None:
    """Answers in any number of views, in all, and in none; and in some that are neither the answer's nor others."""
    case = random_case(seed)
    real = case["real"][case["positive"]]
    case["others"] = real & ~case["answers"] & (np.random.default_rng(seed).random(real.shape) < 0.8)
    positive, answers, others = (torch.tensor(case[name]) for name in ("positive", "answers", "others"))
    assert_formula(
        lambda scores: in_sequence_loss(scores, positive, answers, others, tau),
        lambda: plain_in_sequence(case, tau),
        case,
    )


@given(st.integers(0, 10**6), TAUS, WEIGHTS)
@settings(max_examples=60, deadline=None)
def test_the_nested_loss_is_the_mean_over_the_first_1_2_4_and_all_views(
    seed: int, tau: float, weight: float
) -> None:
    case = random_case(seed)
    widths = {1: [1], 2: [1, 2], 3: [1, 2, 3], 4: [1, 2, 4], 5: [1, 2, 4, 5]}[case["V"]]
    assert_formula(
        lambda scores: run(case, tau, scores, loss=nested_loss, local_weight=weight)[0],
        lambda: float(np.mean([plain_loss({**case, "V": width}, tau, "max", weight) for width in widths])),
        case,
    )
    assert len(run(case, tau, loss=nested_loss)[1].wins) == case["V"]


def plain_divergence(case: dict[str, Any], teacher: np.ndarray, tau: float, teacher_tau: float) -> float:
    """The definition of the divergence, one question and one passage at a time."""
    total = 0.0
    for b, logits in enumerate(teacher):
        listed = [p for p in range(case["P"]) if math.isfinite(logits[p])]
        f = {p: max(case["scores"][b][p][v] for v in range(case["V"]) if case["mask"][p][v]) for p in listed}
        shares = {p: 1 / sum(math.exp((logits[d] - logits[p]) / teacher_tau) for d in listed) for p in listed}
        ours = {p: 1 / sum(math.exp((f[d] - f[p]) / tau) for d in listed) for p in listed}
        total += sum(shares[p] * math.log(shares[p] / ours[p]) for p in listed)
    return total / len(teacher)


@given(st.integers(0, 10**6), TAUS, st.sampled_from([0.5, 1.0, 4.0]))
@settings(max_examples=60, deadline=None)
def test_distillation_and_its_gradient_are_those_of_its_definition(
    seed: int, tau: float, teacher_tau: float
) -> None:
    """Lists of any length, also of one passage and of none."""
    case, draw = random_case(seed), np.random.default_rng(seed)
    teacher = draw.normal(0, 3, case["scores"].shape[:2])
    teacher[draw.random(teacher.shape) < draw.choice([0.1, 0.5, 1.0])] = -np.inf
    mask, logits = torch.tensor(case["mask"]), torch.tensor(teacher, dtype=torch.float32)
    assert_formula(
        lambda scores: distillation_loss(scores, mask, logits, tau, teacher_tau),
        lambda: plain_divergence(case, logits.double().numpy(), tau, teacher_tau),
        case,
    )


def case_of(scores: list[list[list[float]]]) -> dict[str, Any]:
    """Questions whose positives are the first passages, with every view real."""
    B, P, V = (values := np.array(scores, dtype=float)).shape
    views, excluded = np.ones((P, V), bool), np.zeros((B, P), bool)
    plain = {"P": P, "V": V, "scores": values, "mask": views, "real": views, "positive": np.arange(B)}
    return {**plain, "excluded": excluded, "answers": np.zeros((B, V), bool)}


def test_by_hand() -> None:
    # One question, positive views 2 and 4, one negative with max 3: -log(e^4 / (e^4 + e^3)).
    loss, _ = run(case_of([[[2, 4], [3, 1]]]), 1.0)
    assert loss.item() == pytest.approx(math.log(1 + math.exp(-1)))


@pytest.mark.parametrize("mode", ["max", "answer", "both"])
def test_the_program_waits_for_no_value(mode: PositiveMode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shown on a device without values, which autocast does not know: what makes a program wait for a GPU fails there."""
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())
    with torch.device("meta"):
        passages, rows = torch.ones(5, 3, dtype=torch.bool), torch.arange(2)
        given = torch.zeros(2, 5, 3), passages, rows, torch.zeros(2, 5, dtype=torch.bool), 1.0
        options = {"real_views": passages, "answer_views": torch.ones(2, 3, dtype=torch.bool)}
        loss, parts = contrastive_loss(*given, **options, positive_mode=mode, local_weight=0.1)
    assert loss.is_meta and parts.wins.shape == (3,)


def test_views_that_tie_share_the_gradient() -> None:
    scores = torch.ones(1, 2, 4, requires_grad=True)
    flags = torch.ones(2, 4, dtype=torch.bool)
    loss, parts = contrastive_loss(
        scores, flags, torch.tensor([0]), torch.zeros(1, 2, dtype=torch.bool), 1.0, real_views=flags
    )
    loss.backward()
    assert scores.grad is not None
    assert scores.grad[0, 0].tolist() == pytest.approx([-0.125] * 4)
    assert parts.local.item() == pytest.approx(math.log(4))


def test_half_precision_leaves_scoring_alone() -> None:
    # At 134, bfloat16 knows 134 and 133 but nothing between.
    hidden = torch.tensor([[[134.0, 0.4]]])
    question = torch.tensor([[1.0, 1.0]])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        vectors = pool(hidden, torch.ones(1, 1, 1))
        assert vectors.dtype == torch.float32
        scores = torch.stack([vectors.sum(-1) * question[0, 0], torch.full((1, 1), 134.0)], dim=1)
        flags = torch.ones(2, 1, dtype=torch.bool)
        loss, _ = contrastive_loss(
            scores, flags, torch.tensor([0]), torch.zeros(1, 2, dtype=torch.bool), 1.0, real_views=flags
        )
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(math.log(1 + math.exp(-0.4)), rel=1e-4)


def test_scores_that_come_in_half_precision_are_taken_to_float32_first() -> None:
    case = case_of([[[100.5], [100.0], [99.5]]])
    loss, _ = run(case, 0.3, dtype=torch.bfloat16)
    assert loss.item() == pytest.approx(plain_loss(case, 0.3, "max", 0.0), rel=1e-3)


def test_the_annealed_temperature_steps_with_the_epoch() -> None:
    annealed = Temperature(schedule="annealed")
    assert [temperature(annealed, step, 10, 400) for step in (0, 9)] == [1.0, 1.0]
    assert temperature(annealed, 10, 10, 400) == temperature(annealed, 19, 10, 400) == math.exp(-0.1)
    assert temperature(annealed, 120, 10, 400) == pytest.approx(math.exp(-1.2))
    assert temperature(annealed, 121 * 10, 10, 4000) == 0.3


def test_the_progress_clock_runs_forty_epochs_whatever_the_length() -> None:
    short = Temperature(schedule="annealed", clock="progress")
    assert temperature(short, 0, 50, 80) == 1.0
    assert temperature(short, 2, 50, 80) == pytest.approx(math.exp(-0.1 * 40 * 2 / 80))
    assert temperature(short, 79, 50, 80) == 0.3


def test_a_fixed_temperature_is_fixed() -> None:
    assert {temperature(Temperature(value=0.7), step, 3, 30) for step in range(30)} == {0.7}
