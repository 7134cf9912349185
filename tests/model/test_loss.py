"""MVR Eq. 5-8 and 5.1, and CAMVR Eq. 13, beside plain formulas in float64."""

import math
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
    """Views that are missing, padding, answers and exclusions at random; every passage has a real view."""
    draw = np.random.default_rng(seed)
    B, P, V = int(draw.integers(1, 5)), int(draw.integers(5, 9)), int(draw.integers(1, 6))
    mask = draw.random((P, V)) < 0.7
    mask[:, 0] = True
    real = mask & (draw.random((P, V)) < 0.7)
    real[:, 0] = True
    positive = draw.permutation(P)[:B]
    return {
        "P": P,
        "V": V,
        "scores": draw.normal(draw.choice([-90, 0, 90]), 3, (B, P, V)),
        "mask": mask,
        "real": real,
        "positive": positive,
        "excluded": draw.random((B, P)) < 0.2,
        "answers": real[positive] & (draw.random((B, V)) < 0.4),
    }


def run(case: dict[str, Any], tau: float, dtype: torch.dtype = torch.float32, **options: Any) -> Any:
    return contrastive_loss(
        torch.tensor(case["scores"], dtype=dtype),
        torch.tensor(case["mask"]),
        torch.tensor(case["positive"]),
        torch.tensor(case["excluded"]),
        tau,
        real_views=torch.tensor(case["real"]),
        answer_views=torch.tensor(case["answers"]),
        **options,
    )


@given(
    st.integers(0, 10**6),
    st.sampled_from([0.3, 0.7, 1.0]),
    st.sampled_from(["max", "answer", "both", "each"]),
    st.sampled_from([0.0, 0.01, 0.5]),
)
@settings(max_examples=100, deadline=None)
def test_the_loss_is_the_papers_formula(seed: int, tau: float, mode: str, weight: float) -> None:
    case = random_case(seed)
    loss, parts = run(case, tau, positive_mode=mode, local_weight=weight)
    assert loss.item() == pytest.approx(plain_loss(case, tau, mode, weight), rel=1e-4, abs=1e-4)
    local = plain_loss(case, tau, mode, 1.0) - plain_loss(case, tau, mode, 0.0)
    assert parts.local.item() == pytest.approx(local, rel=1e-4, abs=1e-4)
    known = case["answers"].any(axis=1).mean() if mode != "max" else 1.0
    assert parts.fallback.item() == pytest.approx(1 - known, abs=1e-6)


@given(
    st.integers(0, 10**6),
    st.sampled_from([0.3, 1.0]),
    st.sampled_from(["max", "answer", "both", "each"]),
    st.sampled_from([0.0, 0.5]),
)
@settings(max_examples=40, deadline=None)
def test_its_gradient_is_that_of_the_formula(
    seed: int, tau: float, mode: PositiveMode, weight: float
) -> None:
    """Central differences of the plain formula in float64, by each score; scores of missing views have none."""
    case = random_case(seed)
    scores = torch.tensor(case["scores"], dtype=torch.float32, requires_grad=True)
    case["scores"] = scores.detach().double().numpy()  # as the loss sees them, after rounding
    loss, _ = contrastive_loss(
        scores,
        torch.tensor(case["mask"]),
        torch.tensor(case["positive"]),
        torch.tensor(case["excluded"]),
        tau,
        real_views=torch.tensor(case["real"]),
        answer_views=torch.tensor(case["answers"]),
        positive_mode=mode,
        local_weight=weight,
    )
    loss.backward()
    assert scores.grad is not None
    step, expected = 1e-6, np.zeros_like(case["scores"])
    for place in np.ndindex(expected.shape):
        stood = case["scores"][place]
        for sign in (1, -1):
            case["scores"][place] = stood + sign * step
            expected[place] += sign * plain_loss(case, tau, mode, weight) / (2 * step)
        case["scores"][place] = stood
    np.testing.assert_allclose(scores.grad.numpy(), expected, atol=1e-4)


def plain_in_sequence(case: dict[str, Any], tau: float) -> float:
    """The formula, one view with the answer at a time."""
    pairs = []
    for b, d in enumerate(case["positive"]):
        f, answers = case["scores"][b][d] / tau, case["answers"][b]
        others = [f[v] for v in range(case["V"]) if case["real"][d][v] and not answers[v]]
        pairs += [math.log(sum(math.exp(s - f[v]) for s in [f[v], *others])) for v in np.flatnonzero(answers)]
    return sum(pairs) / max(1, len(pairs))


@given(st.integers(0, 10**6), st.sampled_from([0.3, 1.0]))
@settings(max_examples=60, deadline=None)
def test_in_sequence_negatives_and_their_gradient_are_those_of_the_formula(seed: int, tau: float) -> None:
    """Answers in any number of views, in all, and in none; central differences in float64."""
    case = random_case(seed)
    scores = torch.tensor(case["scores"], dtype=torch.float32, requires_grad=True)
    case["scores"] = scores.detach().double().numpy()
    positive, real = torch.tensor(case["positive"]), torch.tensor(case["real"])
    loss = in_sequence_loss(scores, positive, real, torch.tensor(case["answers"]), tau)
    assert loss.item() == pytest.approx(plain_in_sequence(case, tau), rel=1e-4, abs=1e-4)
    loss.backward()
    assert scores.grad is not None
    step, expected = 1e-6, np.zeros_like(case["scores"])
    for place in np.ndindex(expected.shape):
        stood = case["scores"][place]
        for sign in (1, -1):
            case["scores"][place] = stood + sign * step
            expected[place] += sign * plain_in_sequence(case, tau) / (2 * step)
        case["scores"][place] = stood
    np.testing.assert_allclose(scores.grad.numpy(), expected, atol=1e-4)


@given(st.integers(0, 10**6), st.sampled_from([0.3, 1.0]))
@settings(max_examples=20, deadline=None)
def test_in_sequence_negatives_of_the_winning_view_are_the_local_loss(seed: int, tau: float) -> None:
    case = random_case(seed)
    case["real"] = case["mask"]
    own = np.where(
        case["mask"][case["positive"]],
        case["scores"][np.arange(len(case["positive"])), case["positive"]],
        -np.inf,
    )
    case["answers"] = np.arange(case["V"]) == own.argmax(axis=1)[:, None]
    _, parts = run(case, tau)
    scores, positive, real, answers = (
        torch.tensor(case[name]) for name in ("scores", "positive", "real", "answers")
    )
    loss = in_sequence_loss(scores, positive, real, answers, tau)
    assert loss.item() == pytest.approx(parts.local.item(), rel=1e-4, abs=1e-4)


@given(st.integers(0, 10**6), st.sampled_from([0.3, 1.0]), st.sampled_from([0.0, 0.5]))
@settings(max_examples=60, deadline=None)
def test_the_nested_loss_is_the_mean_over_the_first_1_2_4_and_all_views(
    seed: int, tau: float, weight: float
) -> None:
    case = random_case(seed)
    case["scores"] = case["scores"].astype(np.float32).astype(np.float64)
    loss, parts = nested_loss(
        torch.tensor(case["scores"], dtype=torch.float32),
        torch.tensor(case["mask"]),
        torch.tensor(case["positive"]),
        torch.tensor(case["excluded"]),
        tau,
        real_views=torch.tensor(case["real"]),
        local_weight=weight,
    )
    widths = {1: [1], 2: [1, 2], 3: [1, 2, 3], 4: [1, 2, 4], 5: [1, 2, 4, 5]}[case["V"]]
    expected = [plain_loss({**case, "V": width}, tau, "max", weight) for width in widths]
    assert loss.item() == pytest.approx(sum(expected) / len(expected), rel=1e-4, abs=1e-4)
    assert len(parts.wins) == case["V"]


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


@given(st.integers(0, 10**6), st.sampled_from([0.3, 1.0]), st.sampled_from([0.5, 1.0, 4.0]))
@settings(max_examples=60, deadline=None)
def test_distillation_and_its_gradient_are_those_of_its_definition(
    seed: int, tau: float, teacher_tau: float
) -> None:
    """Lists of any length, also of one passage and of none; central differences in float64."""
    case, draw = random_case(seed), np.random.default_rng(seed)
    teacher = draw.normal(0, 3, case["scores"].shape[:2])
    teacher[draw.random(teacher.shape) < draw.choice([0.1, 0.5, 1.0])] = -np.inf
    scores = torch.tensor(case["scores"], dtype=torch.float32, requires_grad=True)
    logits = torch.tensor(teacher, dtype=torch.float32)
    case["scores"], teacher = scores.detach().double().numpy(), logits.double().numpy()
    loss = distillation_loss(scores, torch.tensor(case["mask"]), logits, tau, teacher_tau)
    expected = plain_divergence(case, teacher, tau, teacher_tau)
    assert loss.item() == pytest.approx(expected, rel=1e-4, abs=1e-4)
    loss.backward()
    step, gradient = 1e-6, np.zeros_like(case["scores"])
    for place in np.ndindex(gradient.shape):
        stood = case["scores"][place]
        for sign in (1, -1):
            case["scores"][place] = stood + sign * step
            gradient[place] += sign * plain_divergence(case, teacher, tau, teacher_tau) / (2 * step)
        case["scores"][place] = stood
    assert scores.grad is not None
    np.testing.assert_allclose(scores.grad.numpy(), gradient, atol=1e-4)


def test_a_model_that_agrees_with_its_teacher_learns_nothing() -> None:
    scores = torch.tensor([[[1.0, 3.0], [2.0, 0.0], [9.0, 9.0]]], requires_grad=True)
    teacher = torch.tensor([[7.0, 5.0, -torch.inf]])
    mask = torch.ones(3, 2, dtype=torch.bool)
    loss = distillation_loss(scores, mask, teacher, 0.5, 1.0)
    loss.backward()
    assert loss.item() == pytest.approx(0, abs=1e-6)
    assert scores.grad is not None and scores.grad.abs().max() < 1e-6
    assert distillation_loss(scores, mask, teacher, 1.0, 1.0).item() > 0.05


def case_of(scores: list[list[list[float]]], **changes: Any) -> dict[str, Any]:
    values = np.array(scores, dtype=float)
    B, P, V = values.shape
    plain = {
        "P": P,
        "V": V,
        "scores": values,
        "mask": np.ones((P, V), bool),
        "real": np.ones((P, V), bool),
        "positive": np.arange(B),
        "excluded": np.zeros((B, P), bool),
        "answers": np.zeros((B, V), bool),
    }
    return {**plain, **{name: np.array(value) for name, value in changes.items()}}


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


def test_all_scores_negative() -> None:
    # A max that starts from 0 would give log 2; the missing view must not count as 0 either.
    case = case_of(
        [[[-60, -50], [-70, -55]]], mask=[[True, True], [False, True]], real=[[True, True], [False, True]]
    )
    loss, parts = run(case, 1.0)
    assert loss.item() == pytest.approx(math.log(1 + math.exp(-5)), rel=1e-4)
    assert parts.wins.tolist() == [0, 1]


def test_a_negatives_padding_view_counts_and_a_fallback_leaves_it_out() -> None:
    real = [[True, False], [True, False]]
    loss, parts = run(case_of([[[2, 9], [1, 3]]], real=real), 1.0, positive_mode="answer")
    assert parts.fallback.item() == 1
    assert loss.item() == pytest.approx(math.log(1 + math.exp(3 - 2)))


def test_of_several_answer_views_the_first_counts() -> None:
    case = case_of([[[7, 1, 5], [2, 2, 2]]], answers=[[False, True, True]])
    loss, _ = run(case, 1.0, positive_mode="answer")
    assert loss.item() == pytest.approx(math.log(1 + math.exp(2 - 1)))


def test_the_answers_view_alone_gets_the_positives_gradient() -> None:
    scores = torch.zeros(1, 2, 3, requires_grad=True)
    flags = torch.ones(2, 3, dtype=torch.bool)
    loss, _ = contrastive_loss(
        scores + torch.tensor([[[3.0, 1, 2], [0, 1, 0]]]),
        flags,
        torch.tensor([0]),
        torch.zeros(1, 2, dtype=torch.bool),
        1.0,
        real_views=flags,
        answer_views=torch.tensor([[False, True, False]]),
        positive_mode="answer",
    )
    loss.backward()
    assert scores.grad is not None
    assert (scores.grad != 0).tolist() == [[[False, True, False], [False, True, False]]]


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


def test_an_excluded_passage_is_no_negative() -> None:
    scores = [[[5.0], [5.0], [1.0]]]
    assert run(case_of(scores), 1.0)[0].item() > 0.6
    loss, _ = run(case_of(scores, excluded=[[False, True, False]]), 1.0)
    assert loss.item() == pytest.approx(math.log(1 + math.exp(-4)), rel=1e-5)


def test_large_scores_at_a_low_temperature_stay_finite() -> None:
    case = case_of([[[134, 133.99], [50, 133.98]]])
    loss, parts = run(case, 0.3, local_weight=0.01)
    assert loss.item() == pytest.approx(plain_loss(case, 0.3, "max", 0.01), abs=2e-4)
    assert parts.local.item() < math.log(2)


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
