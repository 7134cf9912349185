"""The look of each system in charts."""

import itertools

import pytest

from multiview.report.drawing import MARKERS, Look


@pytest.mark.parametrize("base", [0, 3, 10])
def test_no_two_of_eleven_systems_look_alike_and_the_baseline_is_grey(base):
    looks = [Look.of(number, base) for number in range(11)]
    assert looks[base].colour == 0 and [look.colour for look in looks].count(0) == 1
    assert len({look.marker for look in looks}) == 11 == len(MARKERS)
    for first, second in itertools.combinations(looks, 2):
        assert (first.colour, first.dashed) != (second.colour, second.dashed)
