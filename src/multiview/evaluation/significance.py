"""Whether systems differ: paired over the questions of a run each, and over seeds (CAMVR Table 6).

Both give figures by system and metric, each tested against one system, the baseline; the p-values of one
metric are corrected for the number of systems that are tested on it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

CONFIDENCE = 0.95
"""Of the bootstrap's intervals."""

FEW = 10
"""Up to this many questions on which two systems differ, all signs are tried instead of random ones."""

HELD = 1 << 20
"""Most (resample, question) pairs held at once: some 30 MB."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One system's value of one metric, against the baseline's."""

    value: float
    difference: float | None = None
    """Value minus the baseline's; none, as are the p-values, of the baseline and where it lacks the metric."""
    p: float | None = None
    """Two-sided; none also where the test says nothing."""
    corrected_p: float | None = None
    """By Holm's method."""


Some = TypeVar("Some", bound=Figure)


@dataclass(frozen=True, kw_only=True)
class PairedFigure(Figure):
    """`value` is the mean over the questions of one run."""

    questions: int
    """How many the metric judges."""
    low: float | None
    high: float | None
    """The interval of `value`; none with fewer than two questions."""


def paired_figures(
    values: Mapping[str, Mapping[str, np.ndarray]],
    baseline: str,
    resamples: int,
    seed: int,
    report_done: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, dict[str, PairedFigure]]:
    """Every system's figures, tested over the questions against `baseline`'s.

    `values[system][metric]` [q] has each question's value, in one order of questions for all systems,
    nan where the metric does not judge it. A metric that judges no question is left out. `report_done` hears
    how many of all figures are done.
    """
    judged = {
        system: {name: of for name, of in metrics.items() if not np.isnan(of).all()}
        for system, metrics in values.items()
    }
    columns = {(system, name): of for system, metrics in judged.items() for name, of in metrics.items()}
    intervals = bootstrap_intervals(columns, resamples, seed)
    figures: dict[str, dict[str, PairedFigure]] = {system: {} for system in values}
    for done, ((system, name), of) in enumerate(columns.items(), start=1):
        low, high = intervals[system, name]
        number = int((~np.isnan(of)).sum())
        figure = PairedFigure(value=float(np.nanmean(of)), questions=number, low=low, high=high)
        if system != baseline and name in judged[baseline]:
            difference = of - judged[baseline][name]
            difference = difference[~np.isnan(difference)]
            if len(difference):
                p = randomisation_test(difference, resamples, seed)
                figure = replace(figure, difference=float(difference.mean()), p=p)
        figures[system][name] = figure
        report_done(done, len(columns))
    return corrected(figures)


def randomisation_test(differences: np.ndarray, resamples: int, seed: int) -> float:
    """Two-sided p of the paired randomisation test (Fisher; Smucker et al., CIKM 2007).

    `differences` [q] are one system's values minus the other's. Were the two alike, each difference could
    as well have the other sign: p is twice the share of signs whose sum lies at least as far out on its
    side, at most 1. Over all signs where at most `FEW` questions differ, else over `resamples` random ones,
    the observed ones counting as one more.
    """
    from scipy import stats  # takes most of a second, and most who import this module test nothing

    differences = differences[differences != 0]  # the sign of the others changes no sum
    if not len(differences):
        return 1.0
    if len(differences) <= FEW:
        two = np.append(differences, 0.0)  # scipy wants two observations or more
        exact = stats.permutation_test(
            (two,),
            lambda signed, axis: _rounded(signed.sum(axis=axis)),
            permutation_type="samples",
            vectorized=True,
            n_resamples=2 ** len(two),
        )
        return float(exact.pvalue)
    rng = np.random.default_rng(seed)
    random = stats.monte_carlo_test(
        np.ones(len(differences)),
        lambda size: 2.0 * rng.integers(0, 2, size, np.int8) - 1,
        lambda signs, axis: _rounded(signs @ differences),
        vectorized=True,
        n_resamples=resamples,
        batch=max(1, HELD // len(differences)),
    )
    return float(random.pvalue)


def _rounded(sums: np.ndarray) -> np.ndarray:
    """Sums that are equal but for the order of their terms become equal: they tie in a test."""
    return np.round(sums, 9)


Name = TypeVar("Name")


def bootstrap_intervals(
    columns: Mapping[Name, np.ndarray], resamples: int, seed: int
) -> dict[Name, tuple[float, float] | tuple[None, None]]:
    """The percentile bootstrap's interval of the mean of each column [q], over the questions that it judges.

    The same resamples serve all columns that judge the same questions. None with fewer than two questions.
    """
    from scipy import stats

    alike: dict[bytes, list[Name]] = {}
    for name, of in columns.items():
        alike.setdefault(np.isnan(of).tobytes(), []).append(name)
    intervals: dict[Name, tuple[float, float] | tuple[None, None]] = {}
    for group in alike.values():
        matrix = np.stack([columns[name][~np.isnan(columns[name])] for name in group], axis=1)
        if len(matrix) < 2:
            intervals |= dict.fromkeys(group, (None, None))
            continue
        found = stats.bootstrap(
            (np.arange(len(matrix)),),
            _resampled_means(matrix),
            n_resamples=resamples,
            batch=max(1, HELD // len(matrix)),
            vectorized=True,
            confidence_level=CONFIDENCE,
            method="percentile",
            rng=np.random.default_rng(seed),
        ).confidence_interval
        for name, low, high in zip(group, found.low.tolist(), found.high.tolist(), strict=True):
            intervals[name] = (low, high)
    return intervals


def _resampled_means(matrix: np.ndarray) -> Callable[..., np.ndarray]:
    """A statistic of drawn questions [b, q]: the means [c, b] of the columns of `matrix` [q, c].

    How often each question was drawn, times the values: no [b, q, c] array is made.
    """
    questions = len(matrix)

    def means(drawn: np.ndarray, axis: int = -1) -> np.ndarray:
        first = questions * np.arange(len(drawn))[:, None]
        counts = np.bincount((drawn + first).ravel(), minlength=drawn.size).reshape(drawn.shape)
        return (counts @ matrix).T / questions

    return means


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values of several tests corrected by Holm's method (1979), in their order.

    The i-th smallest of m is multiplied by m − i + 1, and is no smaller than those before it. (scipy has
    corrections of the false discovery rate alone.)
    """
    order = np.argsort(p_values)
    factors = len(p_values) - np.arange(len(p_values))
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.maximum.accumulate(factors * np.asarray(p_values, float)[order])
    return np.minimum(adjusted, 1).tolist()


def corrected(figures: Mapping[str, Mapping[str, Some]]) -> dict[str, dict[str, Some]]:
    """Figures of system and metric with the p-values of each metric corrected over its systems."""
    done = {system: dict(metrics) for system, metrics in figures.items()}
    for name in dict.fromkeys(name for metrics in figures.values() for name in metrics):
        p_values = {
            system: p
            for system, metrics in figures.items()
            if name in metrics and (p := metrics[name].p) is not None
        }
        for system, p in zip(p_values, holm(list(p_values.values())), strict=True):
            done[system][name] = replace(done[system][name], corrected_p=p)
    return done


# --- over seeds --------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class SeedsFigure(Figure):
    """`value` is the mean over the runs with several seeds."""

    deviation: float | None
    """The sample's standard deviation; none with one seed."""
    seeds: int


def seeds_t_test(values_a: Sequence[float], values_b: Sequence[float]) -> float | None:
    """Two-sided p of Welch's t-test of two systems' values, one a seed (CAMVR Table 6).

    None where there is nothing to go by: fewer than two seeds of either, or no variance in both.
    """
    from scipy import stats

    if min(len(values_a), len(values_b)) < 2 or (np.ptp(values_a) == 0 and np.ptp(values_b) == 0):
        return None
    with warnings.catch_warnings():  # of one system without variance, as BM25 is: nothing is lost
        warnings.simplefilter("ignore", RuntimeWarning)
        test: Any = stats.ttest_ind(values_a, values_b, equal_var=False)
    return float(test.pvalue)


def seeds_figures(
    groups: Mapping[str, Mapping[str, Sequence[float]]], baseline: str
) -> dict[str, dict[str, SeedsFigure]]:
    """Every system's figures, tested over its runs with several seeds against `baseline`'s.

    `groups[system][metric]` are the values of its runs, one a seed; systems may have different numbers and
    metrics. `tables.seeds_table` writes the figures down, `dataclasses.asdict` makes each JSON-ready.
    """
    figures: dict[str, dict[str, SeedsFigure]] = {system: {} for system in groups}
    for system, metrics in groups.items():
        for name, values in metrics.items():
            if not len(values):
                continue
            deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
            figure = SeedsFigure(value=float(np.mean(values)), deviation=deviation, seeds=len(values))
            others = groups[baseline].get(name, ())
            if system != baseline and len(others):
                difference = figure.value - float(np.mean(others))
                figure = replace(figure, difference=difference, p=seeds_t_test(values, others))
            figures[system][name] = figure
    return corrected(figures)
