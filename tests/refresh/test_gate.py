"""The gate's verdicts on real (tiny) indexes."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from multiview import metric_names, names
from multiview.artifacts.attempt import Attempt
from multiview.artifacts.champions import champion_numbers
from multiview.artifacts.store import LocalStore
from multiview.refresh.gate import figures
from multiview.refresh.gate_rules import Check, Difference, Verdict
from multiview.steps.events import read_metrics
from tests.fixtures.changing_corpus import ChangingCorpus


def test_nothing_changed_nothing_is_promoted(corpus: ChangingCorpus) -> None:
    records = corpus.refresh()
    assert (corpus.decision(records), champion_numbers(corpus.store)) == ("keep", [1])
    assert records["challenger/changes"][names.CHANGES].facts["to_encode"] == 0


def test_a_halved_corpus_is_refused_and_the_champion_stays(corpus: ChangingCorpus) -> None:
    corpus.rows = corpus.rows[: len(corpus.rows) // 2]
    records = corpus.refresh()
    found = corpus.verdict(records)
    assert found["decision"] == "refuse" and found["says"].startswith("largest_shrinkage: ")
    assert champion_numbers(corpus.store) == [1]
    page = (corpus.files(records["report"][names.REPORT]) / "report.html").read_text()
    assert "<h1>Refused</h1>" in page and "largest_shrinkage" in page
    assert corpus.decision(corpus.refresh(gate={"drops": {}, "largest_shrinkage": 0.6})) == "promote"
    assert champion_numbers(corpus.store) == [1, 2]


def test_the_gate_reports_the_metrics_of_both_sides_as_metric_and_side(corpus: ChangingCorpus) -> None:
    corpus.change(2)
    gate = corpus.refresh()["gate"][names.VERDICT]
    reported = {metric.name: metric.value for metric in read_metrics(corpus.store, gate.data)}
    measured = json.loads((corpus.files(gate) / "verdict.json").read_text())["metrics"]
    assert measured and reported == {
        metric_names.of_group(side, name): measured[name][side]
        for name in measured
        for side in ("champion", "challenger")
    }


def test_questions_whose_passages_are_gone_are_left_out_for_both(corpus: ChangingCorpus) -> None:
    corpus.remove("p1")
    records = corpus.refresh()
    assert records["split"][names.PASSAGES].facts["dropped_questions"] > 0
    assert corpus.decision(records) == "promote"


REFUSED = Verdict(
    "refuse",
    "accuracy_at_5 fell",
    [Check("accuracy_at_5", False, "-0.2"), Check("passages", True, "10")],
    {"accuracy_at_5": Difference(0.75, 0.5), "ndcg_at_10": Difference(0.5, 0.5)},
)
FIRST = Verdict("promote", "the first", [], {"mrr_at_10": Difference(None, 0.25)})
KEPT = Verdict("keep", "nothing has changed")


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (REFUSED, {"promoted": 0, "failed_checks": 1, "accuracy_at_5/champion": 0.75, "accuracy_at_5/challenger": 0.5}),
        (FIRST, {"promoted": 1, "failed_checks": 0, "mrr_at_10/challenger": 0.25}),
        (KEPT, {"promoted": 0, "failed_checks": 0}),
    ],
)  # fmt: skip
def test_a_verdict_shows_its_outcome_and_both_sides(verdict, expected, tmp_path):
    store = LocalStore(tmp_path)
    attempt = Attempt(store, "verdict", "k")
    (attempt.path / names.VERDICT_FILE).write_text(json.dumps(asdict(verdict)))
    record = attempt.publish(step="gate", step_version=1, config={}, inputs={})[0]
    assert figures(store, record) == expected
