"""Tests of whether systems differ: paired over the questions of one run each, or over seeds (CAMVR Table 6).

Both give figures by system and metric, each tested against the same system, the baseline. The p-values of a metric
are corrected for the number of systems that are tested on it.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, TypeVar

import numpy as np

RESAMPLES = 10_000
"""Resamples of the questions for tests and intervals."""

CONFIDENCE = 0.95
"""Confidence level of the bootstrap's intervals."""

EXACT_TEST_QUESTIONS = 10
"""Largest number of differing questions for which all signs are tried instead of random ones."""

PAIRS_AT_ONCE = 1 << 20
"""Most (resample, question) pairs held in memory at once: some 30 MB."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One system's value of one metric, against the baseline's."""

    value: float
    difference: float | None = None
    """Value minus the baseline's. The difference and the p-values are none for the baseline itself, and where the
    baseline lacks the metric."""
    p: float | None = None
    """Two-sided p-value; none also where the test is not defined."""
    corrected_p: float | None = None
    """p-value corrected by Holm's method."""


AnyFigure = TypeVar("AnyFigure", bound=Figure)


@dataclass(frozen=True, kw_only=True)
class PairedFigure(Figure):
    """A figure with the mean over the questions of one run as its `value`."""

    questions: int
    """Number of questions that the metric judges."""
    low: float | None
    """Lower end of the interval of `value`; none with fewer than two questions."""
    high: float | None
    """Upper end of the interval of `value`; none with fewer than two questions."""


def paired_figures(
    values: Mapping[str, Mapping[str, np.ndarray]],
    baseline: str,
    resamples: int,
    seed: int,
    report_done: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, dict[str, PairedFigure]]:
    """Figures of every system, tested over the questions against the figures of `baseline`.

    `values[system][metric]` [q] has one value per question, in the same order of questions for all systems, NaN where
    the metric does not judge the question. A metric that judges no question is left out. `report_done` is called with
    the numbers of figures that are done and of all figures.
    """
    judged = {
        system: {name: column for name, column in metrics.items() if not np.isnan(column).all()}
        for system, metrics in values.items()
    }
    columns = {
        (system, name): column for system, metrics in judged.items() for name, column in metrics.items()
    }
    intervals = bootstrap_intervals(columns, resamples, seed)
    figures: dict[str, dict[str, PairedFigure]] = {system: {} for system in values}
    for done, ((system, name), column) in enumerate(columns.items(), start=1):
        low, high = intervals[system, name]
        questions = int((~np.isnan(column)).sum())
        figure = PairedFigure(value=float(np.nanmean(column)), questions=questions, low=low, high=high)
        if system != baseline and name in judged[baseline]:
            difference = column - judged[baseline][name]
            difference = difference[~np.isnan(difference)]
            if len(difference):
                p = randomisation_test(difference, resamples, seed)
                figure = replace(figure, difference=float(difference.mean()), p=p)
        figures[system][name] = figure
        report_done(done, len(columns))
    return corrected(figures)


def randomisation_test(differences: np.ndarray, resamples: int, seed: int) -> float:
    """Two-sided p of the paired randomisation test (Fisher; Smucker et al., CIKM 2007).

    `differences` [q] are one system's values minus the other's. If the systems were alike, each difference could as
    well have the opposite sign: p is twice the share of sign assignments whose sum is at least as extreme on its side,
    at most 1. All assignments are tried where at most `EXACT_TEST_QUESTIONS` questions differ, else `resamples` random ones, with the
    observed assignment counted as one more.
    """
    from scipy import stats  # takes most of a second to import, and most users of this module test nothing

    differences = differences[differences != 0]  # the signs of zeros change no sum
    if not len(differences):
        return 1.0
    if len(differences) <= EXACT_TEST_QUESTIONS:
        padded = np.append(differences, 0.0)  # scipy needs at least two observations
        exact = stats.permutation_test(
            (padded,),
            lambda signed, axis: _rounded(signed.sum(axis=axis)),
            permutation_type="samples",
            vectorized=True,
            n_resamples=2 ** len(padded),
        )
        return float(exact.pvalue)
    rng = np.random.default_rng(seed)
    random = stats.monte_carlo_test(
        np.ones(len(differences)),
        lambda size: 2.0 * rng.integers(0, 2, size, np.int8) - 1,
        lambda signs, axis: _rounded(signs @ differences),
        vectorized=True,
        n_resamples=resamples,
        batch=max(1, PAIRS_AT_ONCE // len(differences)),
    )
    return float(random.pvalue)


def _rounded(sums: np.ndarray) -> np.ndarray:
    """Rounds sums, so that sums of the same terms in another order are equal and tie in a test."""
    return np.round(sums, 9)


Name = TypeVar("Name")


def bootstrap_intervals(
    columns: Mapping[Name, np.ndarray], resamples: int, seed: int
) -> dict[Name, tuple[float, float] | tuple[None, None]]:
    """Percentile bootstrap interval (low, high) of the mean of each column [q], over the questions that it judges.

    Columns that judge the same questions use the same resamples. With fewer than two questions, both ends are none.
    """
    from scipy import stats

    alike: dict[bytes, list[Name]] = {}
    for name, column in columns.items():
        alike.setdefault(np.isnan(column).tobytes(), []).append(name)
    intervals: dict[Name, tuple[float, float] | tuple[None, None]] = {}
    for group in alike.values():
        matrix = np.stack([columns[name][~np.isnan(columns[name])] for name in group], axis=1)
        if len(matrix) < 2:
            intervals |= dict.fromkeys(group, (None, None))
            continue
        interval = stats.bootstrap(
            (np.arange(len(matrix)),),
            _resampled_means(matrix),
            n_resamples=resamples,
            batch=max(1, PAIRS_AT_ONCE // len(matrix)),
            vectorized=True,
            confidence_level=CONFIDENCE,
            method="percentile",
            rng=np.random.default_rng(seed),
        ).confidence_interval
        for name, low, high in zip(group, interval.low.tolist(), interval.high.tolist(), strict=True):
            intervals[name] = (low, high)
    return intervals


def _resampled_means(matrix: np.ndarray) -> Callable[..., np.ndarray]:
    """Returns the statistic of resampled questions [b, q]: the means [c, b] of the columns of `matrix` [q, c].

    It multiplies the values by how often each question was sampled, so no [b, q, c] array is made.
    """
    questions = len(matrix)

    def means(sampled: np.ndarray, axis: int = -1) -> np.ndarray:
        first = questions * np.arange(len(sampled))[:, None]
        counts = np.bincount((sampled + first).ravel(), minlength=sampled.size).reshape(sampled.shape)
        return (counts @ matrix).T / questions

    return means


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values of several tests corrected by Holm's method (1979), in their order.

    The i-th smallest of m is multiplied by m − i + 1, and is made no smaller than the corrected ones before it.
    (scipy only has corrections of the false discovery rate.)
    """
    order = np.argsort(p_values)
    factors = len(p_values) - np.arange(len(p_values))
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.maximum.accumulate(factors * np.asarray(p_values, float)[order])
    return np.minimum(adjusted, 1).tolist()


def corrected(figures: Mapping[str, Mapping[str, AnyFigure]]) -> dict[str, dict[str, AnyFigure]]:
    """Returns the figures, system to metric, with the p-values of each metric corrected over its systems."""
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
    """A figure with the mean over runs with several seeds as its `value`."""

    deviation: float | None
    """Standard deviation of the sample; none with one seed."""
    seeds: int


def seeds_t_test(values_a: Sequence[float], values_b: Sequence[float]) -> float | None:
    """Two-sided p of Welch's t-test of two systems' values, one per seed (CAMVR Table 6).

    None where the test is not defined: either system has fewer than two seeds, or neither has any variance.
    """
    from scipy import stats

    if min(len(values_a), len(values_b)) < 2 or (np.ptp(values_a) == 0 and np.ptp(values_b) == 0):
        return None
    with warnings.catch_warnings():  # one system has no variance, such as BM25: harmless
        warnings.simplefilter("ignore", RuntimeWarning)
        test: Any = stats.ttest_ind(values_a, values_b, equal_var=False)
    return float(test.pvalue)


def seeds_figures(
    groups: Mapping[str, Mapping[str, Sequence[float]]], baseline: str
) -> dict[str, dict[str, SeedsFigure]]:
    """Figures of every system, tested over its runs with several seeds against the figures of `baseline`.

    `groups[system][metric]` are the values of the system's runs, one per seed. Systems may have different numbers of
    seeds and different metrics. `tables.seeds_table` shows the figures; `dataclasses.asdict` makes each JSON-ready.
    """
    figures: dict[str, dict[str, SeedsFigure]] = {system: {} for system in groups}
    for system, metrics in groups.items():
        for name, values in metrics.items():
            if not len(values):
                continue
            deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
            figure = SeedsFigure(value=fmean(values), deviation=deviation, seeds=len(values))
            others = groups[baseline].get(name, ())
            if system != baseline and len(others):
                difference = figure.value - fmean(others)
                figure = replace(figure, difference=difference, p=seeds_t_test(values, others))
            figures[system][name] = figure
    return corrected(figures)
