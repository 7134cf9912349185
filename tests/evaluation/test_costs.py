"""The time of one question asked alone, by a clock that the questions move."""

import pytest

from multiview.evaluation.costs import TIMED_ALONE, median_milliseconds


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
    with pytest.raises(ValueError, match="no question"):
        median_milliseconds(slow.ask, [], slow)
