"""The gate's decision, recomputed plainly, and each of its checks."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest

from multiview.config import Gate
from multiview.data.questions import LostQuestions
from multiview.refresh.gate_rules import Measurements, Verdict, decide

QUESTIONS = 40
QIDS = [f"q{number}" for number in range(QUESTIONS)]
METRIC = "accuracy_at_5"
LENIENT = Gate(drops={METRIC: 1.0}, largest_shrinkage=1.0)


def measured(right: int, *, name: str = "challenger", passages: int = 1000, **more: object) -> Measurements:
    """An index that finds the answers of the first `right` questions, at rank 3."""
    found = np.arange(QUESTIONS) < right
    of = Measurements(
        digests=(name, "model", "corpus"),
        passages=passages,
        bytes=10_000,
        seconds_per_question=0.002,
        values={METRIC: found.astype(float)},
        ranks=np.where(found, 3.0, np.inf),
    )
    return replace(of, **more)  # type: ignore[arg-type]


CHAMPION = measured(30, name="champion")
NONE_LOST = LostQuestions(QUESTIONS, ())


def some_lost(lost: int, questions: int) -> LostQuestions:
    return LostQuestions(questions, tuple(f"lost-{number}" for number in range(lost)))


def verdict(
    policy: Gate,
    challenger: Measurements,
    champion: Measurements | None = CHAMPION,
    asked: LostQuestions = NONE_LOST,
) -> Verdict:
    return decide(policy, champion, challenger, QIDS, asked, 1000, 0)


def failed(of: Verdict) -> list[str]:
    return [check.name for check in of.failed]


def test_a_drop_counts_as_far_as_its_interval_reaches() -> None:
    challenger = measured(28)  # two of 40 lost: -0.05, and the interval of that reaches to about -0.125
    apart = np.array([-1.0, -1.0] + [0.0] * 38)
    rng = np.random.default_rng(3)
    lowest = np.quantile([rng.choice(apart, QUESTIONS).mean() for _ in range(4000)], 0.025)
    assert failed(verdict(Gate(drops={METRIC: -lowest - 0.02}), challenger)) == [f"drops.{METRIC}"]
    assert failed(verdict(Gate(drops={METRIC: -lowest + 0.02}), challenger)) == []
    found = verdict(Gate(drops={METRIC: 0.0}), challenger)
    assert found.decision == "refuse" and "0.750 became 0.700, -0.050" in found.says
    assert found.metrics[METRIC].difference == pytest.approx(-0.05)


def test_what_answers_alike_passes_without_any_allowance() -> None:
    assert verdict(Gate(drops={METRIC: 0.0}), measured(30)).decision == "promote"
    assert verdict(Gate(drops={METRIC: 0.0}), measured(35)).decision == "promote"


def test_one_question_has_no_interval_so_its_drop_counts() -> None:
    right = {METRIC: np.array([0.8] + [np.nan] * (QUESTIONS - 1))}
    wrong = {METRIC: np.array([0.5] + [np.nan] * (QUESTIONS - 1))}
    champion = replace(CHAMPION, values=right)
    assert failed(verdict(Gate(drops={METRIC: 0.2}), measured(0, values=wrong), champion)) == [
        f"drops.{METRIC}"
    ]
    assert failed(verdict(Gate(drops={METRIC: 0.3}), measured(0, values=wrong), champion)) == []


def test_a_metric_that_was_not_measured_is_a_refusal() -> None:
    for metric in ("accuracy_at_7", "mrr_at_10"):  # of the defaults what is set must be measured, too
        assert failed(verdict(Gate(drops={metric: 0.1}), measured(30))) == [f"drops.{metric}"]
    assert failed(verdict(Gate(drops={}, least={"accuracy_at_7": 0.1}), measured(30))) == [
        "least.accuracy_at_7"
    ]
    nothing = {METRIC: np.full(QUESTIONS, np.nan)}
    assert failed(verdict(LENIENT, measured(30, values=nothing))) == [
        f"drops.{name}" for name in LENIENT.drops
    ]


def test_an_allowance_of_one_metric_keeps_the_checks_of_the_others() -> None:
    all_of_them = dict.fromkeys(Gate().drops, (np.arange(QUESTIONS) < 30).astype(float))
    worse = {**all_of_them, "accuracy_at_1": np.zeros(QUESTIONS)}
    for given, found in (
        ({"mrr_at_10": 0.05}, ["drops.accuracy_at_1"]),
        ({"accuracy_at_1": 0.9}, []),
        ({"accuracy_at_1": None}, []),
        ({}, []),
    ):
        policy = Gate.model_validate(
            Gate.model_validate({"drops": given}).model_dump(mode="json")
        )  # as a step reads it
        champion = replace(CHAMPION, values=all_of_them)
        assert failed(verdict(policy, measured(30, values=worse), champion)) == found, given


@pytest.mark.parametrize("judged", [("accuracy_at_1", "accuracy_at_5", "accuracy_at_20"), ("mrr_at_10",)])
def test_the_gate_as_it_comes_takes_questions_with_answers_or_with_gold_passages(
    judged: tuple[str, ...],
) -> None:
    def answers(right: int) -> dict[str, np.ndarray]:
        return dict.fromkeys(judged, (np.arange(QUESTIONS) < right).astype(float))

    champion = replace(CHAMPION, values=answers(30))
    assert verdict(Gate(), measured(30, values=answers(30)), champion).decision == "promote"
    worse = verdict(Gate(), measured(10, values=answers(10)), champion)
    assert failed(worse) == [f"drops.{name}" for name in judged]
    assert verdict(Gate(), measured(30, values={}), champion).decision == "refuse"


@pytest.mark.parametrize(
    ("passages", "passed"), [(5000, True), (701, True), (700, True), (699, False), (0, False)]
)
def test_a_corpus_may_grow_and_one_that_has_shrunk_is_an_accident(passages: int, passed: bool) -> None:
    found = verdict(Gate(drops={}, largest_shrinkage=0.3), measured(30, passages=passages))
    assert ("largest_shrinkage" in failed(found)) is not passed


def test_no_figure_is_a_negative_zero() -> None:
    policy = Gate(drops={METRIC: 0.0}, largest_shrinkage=0.0)
    says = [check.says for check in verdict(policy, measured(30)).checks]
    assert any("(+0.0%), down to 0.0% is allowed" in text for text in says)
    assert not [text for text in says if re.search(r"-0\.0*(?![\d])", text)]


@pytest.mark.parametrize(
    ("lost", "questions", "allowed", "passed"),
    [
        (28, 30, 0.2, False),
        (6, 30, 0.2, True),
        (7, 30, 0.2, False),
        (3, 30, 0.1, True),
        (7, 25, 0.28, True),
        (1, 1000, 0.0, False),
        (0, 30, 0.0, True),
        (30, 30, 1.0, True),
        (0, 0, 0.0, True),
    ],
)
def test_questions_may_be_lost_up_to_a_share(lost: int, questions: int, allowed: float, passed: bool) -> None:
    """Exactly the share passes, and no questions have lost none."""
    for champion in (CHAMPION, None):
        policy = Gate(drops={}, max_lost_questions=allowed)
        found = verdict(policy, measured(40), champion, some_lost(lost, questions))
        assert failed(found) == ([] if passed else ["max_lost_questions"])
        assert found.decision == ("promote" if passed else "refuse")


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        (Gate(drops={}, smallest_corpus=1001), "smallest_corpus"),
        (Gate(drops={}, seconds_per_question=0.001), "seconds_per_question"),
        (Gate(drops={}, index_bytes=9_999), "index_bytes"),
        (Gate(drops={}, least={METRIC: 0.76}), f"least.{METRIC}"),
        (Gate(drops={}, must_find={"q3": 2}), "must_find.q3"),
        (Gate(drops={}, must_find={"q39": 100}), "must_find.q39"),
        (Gate(drops={}, must_find={"gone": 100}), "must_find.gone"),
    ],
)
def test_each_limit_refuses_by_itself(policy: Gate, name: str) -> None:
    for champion in (CHAMPION, None):
        found = verdict(policy, measured(30), champion)
        assert (found.decision, failed(found)) == ("refuse", [name])
        assert found.says.startswith(f"{name}: ")


def test_a_refusal_names_every_limit_that_refuses() -> None:
    found = verdict(Gate(drops={}, smallest_corpus=1001, index_bytes=9_999), measured(30))
    assert [reason.partition(":")[0] for reason in found.says.split("; ")] == failed(found)
    assert len(failed(found)) == 2


def test_the_same_limits_let_pass_what_meets_them() -> None:
    policy = Gate(
        drops={METRIC: 0.0},
        least={METRIC: 0.75, "mrr_at_10": 0.83},
        smallest_corpus=1000,
        seconds_per_question=0.002,
        index_bytes=10_000,
        must_find={"q3": 3, "q29": 100},
    )
    # As floats, the mean of 40 times 0.83 is less than that.
    values = {**CHAMPION.values, "mrr_at_10": np.full(QUESTIONS, 0.83)}
    assert verdict(policy, measured(30, values=values)).decision == "promote"


def test_the_first_champion_is_measured_against_no_one() -> None:
    found = verdict(Gate(), measured(0), None)
    assert (found.decision, found.says) == ("promote", "there was no champion")
    assert found.metrics[METRIC].difference is None


def test_the_champions_own_index_stays_whatever_the_policy_says() -> None:
    found = verdict(Gate(smallest_corpus=5000), measured(30, name="champion"))
    assert (found.decision, found.checks) == ("keep", [])


def test_a_looser_policy_never_refuses_what_a_stricter_one_lets_pass() -> None:
    allowed = [0.0, 0.05, 0.1, 0.2, 1.0]
    for right, (strict, loose) in itertools.product(range(20, 36), itertools.combinations(allowed, 2)):
        decisions = [
            verdict(Gate(drops={METRIC: drop}), measured(right)).decision for drop in (strict, loose)
        ]
        assert decisions != ["promote", "refuse"]


def test_a_decision_repeats_itself() -> None:
    assert verdict(Gate(), measured(29)) == verdict(Gate(), measured(29))


def test_another_corpus_with_the_same_index_is_another_one() -> None:
    """Columns that are not encoded, such as a url, come from the corpus."""
    other = replace(CHAMPION, digests=("champion", "model", "other"))
    assert verdict(Gate(drops={METRIC: 0.0}), other).decision == "promote"


def test_a_corpus_that_keeps_no_id_is_another_one() -> None:
    for known, passed in ((None, True), (1, True), (0, False)):
        challenger = measured(40, known=known)
        assert (verdict(Gate(), challenger).decision == "promote") == passed
        assert verdict(LENIENT, challenger).decision == "promote"
        assert verdict(Gate(), challenger, None).decision == "promote"
    assert "another corpus, which needs a store of its own?" in verdict(Gate(), measured(40, known=0)).says


def test_columns_that_are_gone_or_of_another_type_are_named_and_may_be_held():
    before = replace(CHAMPION, columns={"year": "int64", "ok": "bool", "url": "string"})
    after = measured(30, columns={"year": "string", "url": "string", "new": "double"})
    (check,) = (check for check in verdict(LENIENT, after, before).checks if check.name == "keep_columns")
    assert check.passed and check.says == "ok (bool) is gone; year is string, was int64"
    strict = LENIENT.model_copy(update={"keep_columns": True})
    assert failed(verdict(strict, after, before)) == ["keep_columns"]
    assert failed(verdict(strict, replace(after, columns=before.columns), before)) == []
    assert failed(verdict(strict, after, replace(before, columns=None))) == [], "of an older version"
    other = {"year": "uint16", "ok": "bool", "url": "large_string"}  # as another reader or writer has them
    assert failed(verdict(strict, replace(after, columns=other), before)) == []
