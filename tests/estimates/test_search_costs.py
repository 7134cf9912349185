"""The costs of searches: formulas by hand, and constants of the real ones."""

import math

import pytest

from multiview.estimates.search_costs import LARGEST_K, PROPOSED_BYTES, pass_parts
from multiview.estimates.step_costs import cost_of
from multiview.evaluation.analyses import first_views
from multiview.index.exact import questions_at_once
from tests.fixtures.estimated import RATES, config, scenario

SIZE = 2 * 8e6 * 768
"""Bytes of the views."""
ASKING, OTHERS = ["first_views", "each_view", "usage"], ["usage"]


def test_views_that_fit_in_memory_are_read_once() -> None:
    """Others once per group of questions."""
    read = {
        memory: pass_parts(50_000, 200, scenario(1, memory))["reading the views"] * RATES["disk_bytes"]
        for memory in (2 * SIZE, SIZE / 2)
    }
    assert read[2 * SIZE] == pytest.approx(SIZE)
    assert read[SIZE / 2] == pytest.approx(math.ceil(50_000 / 4096) * SIZE)


@pytest.mark.parametrize("kind", ["exact", "compact"])
def test_an_evaluation_encodes_its_questions_once_and_reads_views_that_fit_once(kind: str) -> None:
    asking, others = (
        cost_of("evaluate", config(evaluation={"analyses": names}, index={"kind": kind}), scenario(1)).parts
        for names in (ASKING, OTHERS)
    )
    assert asking["encoding questions"] == others["encoding questions"]
    assert (
        asking["reading the views"]
        == others["reading the views"]
        == pytest.approx(SIZE / RATES["disk_bytes"])
    )


def test_analyses_that_search_all_views_share_a_pass_with_the_search() -> None:
    """Beside an approximate index they have one of their own, as have the questions by which its recall is measured; the
    search of 256 questions is timed."""

    def products(kind: str, names: list[str]) -> float:
        chosen = config(evaluation={"analyses": names}, index={"kind": kind, "measured": 300})
        return cost_of("evaluate", chosen, scenario()).parts["products with all views"]

    whole = pass_parts(3_000, 100, scenario())["products with all views"]
    assert products("exact", OTHERS) == products("exact", ASKING) == pytest.approx(whole * (1 + 256 / 3_000))
    assert products("compact", OTHERS) == pytest.approx(whole * 0.1)
    assert products("compact", ASKING) == pytest.approx(whole * 1.1)


def test_views_that_do_not_fit_are_read_for_every_search() -> None:
    parts = cost_of("evaluate", config(evaluation={"analyses": ASKING}), scenario(memory=SIZE / 2)).parts
    group = questions_at_once(100, 9, "cpu")
    searches = (
        pass_parts(3_000, 100, scenario(memory=SIZE / 2), 9),
        pass_parts(256, 100, scenario(memory=SIZE / 2)),
    )
    assert group < 3_000
    assert parts["reading the views"] == pytest.approx(sum(each["reading the views"] for each in searches))


def test_the_memory_of_an_evaluation_counts_the_rankings_of_its_analyses() -> None:
    """Each view alone and the first 1 to 7 of 8 views: 14 further rankings of 100 hits; their hits are held for all questions."""
    none, both, more = (
        cost_of("evaluate", config(evaluation={"analyses": names}), scenario(dev_questions=questions)).memory
        for names, questions in (([], 512), (ASKING, 512), (ASKING, 1024))
    )
    assert both - none == 14 * 512 * 100 * (RATES["ranked_hit_bytes"] + RATES["judged_hit_bytes"])
    assert more - both > 512 * 100 * 15 * RATES["judged_hit_bytes"]
    assert LARGEST_K == first_views.LARGEST_K


def test_many_rankings_of_many_hits_are_searched_for_by_fewer_questions_at_once() -> None:
    """Memory is that of as many hits, however many questions there are, but for what is held of all of them."""
    chosen = config(evaluation={"depth": 1000, "analyses": ASKING})
    many, more = (
        cost_of("evaluate", chosen, scenario(dev_questions=questions)).memory for questions in (3_000, 6_000)
    )
    further, hits = 14, 3_000 * 1000
    judged = hits * (1 + further) * RATES["judged_hit_bytes"]
    assert more - many == pytest.approx(judged + hits * 24 + 3_000 * (RATES["question_bytes"] + 4 * 768))


def test_what_a_pass_proposes_is_held_for_a_group_of_questions() -> None:
    few, many = (
        cost_of("mine", config(mining={"depth": depth}), scenario(questions=100_000)).memory
        for depth in (100, 200)
    )
    hits = 100 * (1024 * PROPOSED_BYTES + 100_000 * (24 + RATES["mined_hit_bytes"]))
    assert many - few == pytest.approx(hits)


@pytest.mark.parametrize(
    ("architecture", "analyses", "encoded", "of_few"),
    [
        ("camvr", ["attention", "variation", "padding"], 1_000 + 1_500 + 200 * 300, 3 * 500),
        ("mvr", ["attention", "variation", "padding"], 1_000 + 1_500, 2 * 500),
        ("camvr", ["padding", "usage"], 200 * 300, 500),
        ("camvr", [], 0, 0),
    ],
)
def test_analyses_encode_passages_in_float32(
    architecture: str, analyses: list[str], encoded: int, of_few: int
) -> None:
    """As many of a million as the settings let them encode where none is drawn twice, and of 500 all."""
    model = {"architecture": architecture}
    chosen = config(model=model, evaluation={"analyses": analyses}, encode={"compute": "bfloat16"})
    for passages, expected in ((1e6, encoded), (500, of_few)):
        parts = cost_of("evaluate", chosen, scenario(passages=passages)).parts
        alone = cost_of("encode", config(model=model), scenario(passages=expected)).parts
        assert parts["encoding for analyses"] == pytest.approx(alone["forward passes"])


def test_recall_of_an_approximate_index_is_measured_by_all_views() -> None:
    measured, not_measured = (
        cost_of("index", config(index={"kind": "compact", "measured": count}), scenario(1)).parts[
            "measuring recall"
        ]
        for count in (200, 0)
    )
    assert measured == pytest.approx(sum(pass_parts(200, 100, scenario()).values()))
    assert not_measured < measured
    assert "measuring recall" not in cost_of("index", config(), scenario()).parts
