"""The figures of a verdict on Kubeflow's pages."""

import json
from dataclasses import asdict

import pytest

from multiview.artifacts.attempt import Attempt
from multiview.artifacts.store import LocalStore
from multiview.refresh.gate import VERDICT_FILE, figures
from multiview.refresh.gate_rules import Check, Difference, Verdict

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
    (attempt.path / VERDICT_FILE).write_text(json.dumps(asdict(verdict)))
    record = attempt.publish(step="gate", step_version=1, config={}, inputs={})[0]
    assert figures(store, record) == expected
