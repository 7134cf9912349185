"""The time of one question asked alone, by a clock that the questions move, and the settings that differ."""

import pytest

from multiview.artifacts.attempt import Attempt
from multiview.artifacts.record import Reference
from multiview.artifacts.store import LocalStore
from multiview.config import JsonObject
from multiview.evaluation.costs import TIMED_ALONE, differing_settings, median_milliseconds


class Clock:
    """Each question takes the seconds that it names."""

    def __init__(self) -> None:
        self.now, self.asked = 0.0, []

    def __call__(self) -> float:
        return self.now

    def ask(self, question: str) -> None:
        self.asked.append(question)
        self.now += float(question)


def test_the_median_is_of_single_questions_and_the_first_is_asked_before():
    clock = Clock()
    assert median_milliseconds(clock.ask, ["1", "0.25", "0.5", "2"], clock) == pytest.approx(750)
    assert clock.asked == ["1", "1", "0.25", "0.5", "2"]


def test_neither_many_questions_nor_slow_ones_are_all_asked():
    clock = Clock()
    assert median_milliseconds(clock.ask, ["0.125"] * 500, clock) == 125
    assert len(clock.asked) == 1 + TIMED_ALONE
    slow = Clock()
    assert median_milliseconds(slow.ask, ["6"] * 500, slow) == 6000
    assert len(slow.asked) == 1 + 2


def test_a_hybrid_row_differs_by_its_search_and_not_by_its_analyses(tmp_path):
    store = LocalStore(tmp_path)

    def publish(kind: str, step: str, key: str, config: JsonObject, **inputs: Reference) -> Reference:
        made = {name: [reference] for name, reference in inputs.items()}
        record, _ = Attempt(store, kind, key).publish(step=step, step_version=1, config=config, inputs=made)
        return Reference(address=f"{store.url}/{record.folder}", digest=record.digest)

    model = publish("model", "initial-model", "model", {})
    index = publish("index", "index", "index", {}, model=model)
    hybrid = publish("index", "index-with-search", "hybrid", {"search": {"mode": "hybrid"}}, model=model)
    rows = {
        "camvr": publish("evaluation", "evaluate", "by-views", {}, model=model, index=index),
        "camvr-bm25": publish(
            "evaluation", "evaluate", "both", {"evaluation": {"analyses": []}}, model=model, index=hybrid
        ),
        "bm25": publish("evaluation", "evaluate-bm25", "words", {}),
    }
    assert differing_settings({row: reference.address for row, reference in rows.items()}) == {
        "camvr": {"search.mode": "dense"},
        "camvr-bm25": {"search.mode": "hybrid"},
        "bm25": {},
    }
