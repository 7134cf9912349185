"""Tests of differences against their definitions: all signs counted, known tables, plain resampling."""

import itertools
import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.evaluation.significance import (
    EXACT_TEST_QUESTIONS,
    bootstrap_intervals,
    holm,
    paired_figures,
    randomisation_test,
    seeds_figures,
    seeds_t_test,
)
from multiview.evaluation.tables import seeds_table


def by_all_signs(differences) -> float:
    """Two-sided p by its definition, in exact integers: twice the smaller tail, at most 1."""
    observed = sum(differences)
    sums = [
        sum(s * d for s, d in zip(signs, differences, strict=True))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    tails = [sum(s >= observed for s in sums), sum(s <= observed for s in sums)]
    return min(1.0, 2 * min(tails) / len(sums))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-3, 3), max_size=8))
def test_few_differences_are_tested_over_all_signs(differences):
    """In sixths, which floats round: sums that are equal must tie."""
    assert randomisation_test(np.array(differences) / 6, 100, 0) == pytest.approx(by_all_signs(differences))


def test_sums_that_tie_but_for_their_rounding_tie():
    """0.1 + 0.2 − 0.3 is 0, and not in floats: no p below 1, over all signs and over random ones."""
    for times in (2, 5):
        differences = np.array([1, 2, -3] * times) / 10
        assert differences.sum() != 0
        assert randomisation_test(differences, 1000, 0) == 1


def test_questions_without_a_difference_do_not_matter():
    differences = np.array([1.0, 0.5, 0.25, 1.0, 0.5, 1.0])
    padded = np.concatenate([differences, np.zeros(1000)])
    assert randomisation_test(padded, 100, 0) == randomisation_test(differences, 100, 0) == 2 / 64


def test_many_differences_are_tested_over_random_signs():
    """Thirteen, of which all signs can still be counted; p within four standard errors."""
    rng = np.random.default_rng(3)
    assert EXACT_TEST_QUESTIONS < 13
    for shift in (0, 1, 3):
        differences = rng.integers(-4, 5, 13) + shift
        differences[differences == 0] = 1
        exact = by_all_signs(differences.tolist())
        error = 2 * math.sqrt(exact / 2 * (1 - exact / 2) / 20_000)
        assert randomisation_test(differences / 7, 20_000, 0) == pytest.approx(exact, abs=4 * error + 2e-4)


def test_random_signs_follow_the_seed_and_never_give_zero():
    differences = np.random.default_rng(0).normal(0.1, 1, 300)
    p = [randomisation_test(differences, 1000, seed) for seed in (0, 0, 1)]
    assert p[0] == p[1] != p[2]
    assert randomisation_test(np.ones(50), 1000, 0) == 2 / 1001


def test_p_has_the_size_it_says_where_systems_are_alike():
    rng = np.random.default_rng(1)
    p = [randomisation_test(rng.normal(size=30), 200, seed) for seed in range(300)]
    assert 0.02 < np.mean(np.array(p) < 0.05) < 0.09  # 0.05 ± three standard errors


def test_intervals_are_those_of_plain_resampling():
    """The percentiles of the resampled means, drawn as values with other random numbers."""
    rng = np.random.default_rng(0)
    columns = {"a": rng.random(40), "b": np.where(np.arange(40) < 30, rng.integers(0, 2, 40), np.nan)}
    found = bootstrap_intervals(columns, 20_000, 0)
    for name, values in columns.items():
        kept = values[~np.isnan(values)]
        means = sorted(rng.choice(kept, (20_000, len(kept))).mean(axis=1).tolist())
        spread = statistics.stdev(means)
        assert found[name] == pytest.approx((means[500], means[19_500]), abs=0.1 * spread), name


def test_an_interval_does_not_depend_on_its_neighbours():
    rng = np.random.default_rng(0)
    columns = {name: rng.random(50) for name in "abc"}
    alone = bootstrap_intervals({"b": columns["b"]}, 500, 7)["b"]
    assert bootstrap_intervals(columns, 500, 7)["b"] == pytest.approx(alone, abs=1e-12)


def test_holms_correction_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])  # 0.04 · 1 is below 0.03 · 2
    assert holm([0.6, 0.5]) == [1, 1] and holm([0.02]) == [0.02] and holm([]) == []


def test_the_figures_of_a_comparison():
    """Identical systems have p = 1; a metric that one lacks, or that judges nothing, is left out."""
    mrr = np.array([1, 0.5, 0, 1, 0.25, np.nan])
    better = np.array([1, 1, 1, 1, 1, np.nan])
    nothing = np.full(6, np.nan)
    values = {
        "base": {"mrr": mrr, "acc": nothing},
        "same": {"mrr": mrr, "acc": nothing},
        "better": {"mrr": better, "own": mrr},
    }
    figures = paired_figures(values, "base", 1000, 0)
    assert {system: set(of) for system, of in figures.items()} == {
        "base": {"mrr"},
        "same": {"mrr"},
        "better": {"mrr", "own"},
    }
    base, same, best = (figures[system]["mrr"] for system in ("base", "same", "better"))
    assert (base.value, base.questions) == (pytest.approx(2.75 / 5), 5)
    assert base.difference is None and base.p is None and base.corrected_p is None
    assert (same.difference, same.p, same.corrected_p) == (0, 1, 1)
    # 0.5, 1, 0.75 are better, two alike: 2 of 8 signs. Of two systems, the smaller p doubles.
    assert (best.p, best.corrected_p) == (0.25, 0.5) and best.difference == pytest.approx(2.25 / 5)
    assert best.low == best.high == 1 and base.low is not None and base.low < base.value < (base.high or 0)
    assert figures["better"]["own"].p is None


def test_one_question_says_nothing():
    figures = paired_figures({"a": {"m": np.array([0.0])}, "b": {"m": np.array([1.0])}}, "a", 100, 0)
    assert (figures["b"]["m"].p, figures["b"]["m"].low, figures["b"]["m"].high) == (1, None, None)
    assert paired_figures({"a": {}, "b": {}}, "a", 100, 0) == {"a": {}, "b": {}}
    empty = np.zeros(0)
    assert paired_figures({"a": {"m": empty}, "b": {"m": empty}}, "a", 100, 0) == {"a": {}, "b": {}}


# --- over seeds --------------------------------------------------------------------------------


def test_welchs_t_by_a_published_example():
    """Two samples of the exercise in Rosetta Code's "Welch's t-test": p = 0.021378."""
    first = [27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4]
    second = [27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 20.5, 24.4]
    assert seeds_t_test(first, second) == pytest.approx(0.021378, abs=1e-6)


def test_welchs_t_by_its_formula():
    """With two seeds each and equal variances there are 2 degrees of freedom: p = 1 − t / √(2 + t²)."""
    t = 10 / math.sqrt(2 / 2 + 2 / 2)
    assert seeds_t_test([60, 62], [70, 72]) == pytest.approx(1 - t / math.sqrt(2 + t * t), abs=1e-12)
    assert seeds_t_test([1, 2, 3], [1, 2, 3]) == 1


def test_equal_values_of_seeds_in_another_order_have_equal_means():
    values = {"a": {"m": [0.1, 0.2, 0.3]}, "b": {"m": [0.3, 0.2, 0.1]}}
    figures = seeds_figures(values, "a")
    assert figures["a"]["m"].value == figures["b"]["m"].value and figures["b"]["m"].difference == 0


def test_seeds_without_anything_to_go_by():
    assert seeds_t_test([1], [2, 3]) is None and seeds_t_test([], [2, 3]) is None
    assert seeds_t_test([1, 1], [2, 2]) is None, "the seed changes nothing"
    # One without variance: t = 1 / (0.1 / √3) with 2 degrees of freedom.
    t = math.sqrt(3) / 0.1
    p = seeds_t_test([1, 1, 1], [2.0, 2.1, 1.9])
    assert p == pytest.approx(1 - t / math.sqrt(2 + t * t), rel=1e-6)


def test_a_table_over_seeds():
    groups = {
        "mvr": {"accuracy_at_5": [0.591, 0.589, 0.593], "mrr_at_10": [0.4, 0.5, 0.45]},
        "camvr": {"accuracy_at_5": [0.69, 0.692, 0.688], "mrr_at_10": [0.44, 0.5, 0.42]},
        "bm25": {"accuracy_at_5": [0.6]},
    }
    figures = seeds_figures(groups, "mvr")
    camvr = figures["camvr"]["accuracy_at_5"]
    assert (camvr.value, camvr.deviation, camvr.seeds) == (pytest.approx(0.69), pytest.approx(0.002), 3)
    assert camvr.difference == pytest.approx(0.099) and camvr.p is not None
    assert camvr.corrected_p == camvr.p < 1e-6, "BM25, with one seed, is not tested and costs nothing"
    assert figures["bm25"]["accuracy_at_5"].p is None
    table = seeds_table(figures, "mvr").splitlines()
    assert [cell.strip() for cell in table[0].split("|")[1:-1]] == ["system", "acc@5", "MRR@10"]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table[2:5]]
    assert cells == [
        ["mvr", "59.1 ± 0.2", "45.0 ± 5.0"],
        ["camvr", "69.0 ± 0.2*", "45.3 ± 4.2"],
        ["bm25", "60.0", ""],
    ]
    assert table[-1].endswith("Welch's t-test over seeds, Holm's correction over the rows")
