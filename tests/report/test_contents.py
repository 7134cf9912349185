"""The look of each system in charts."""

import pytest

from multiview.report.contents import GREY, LOOKS, look_of


@pytest.mark.parametrize("base", [0, 3, 10])
def test_no_two_of_eleven_systems_look_alike_and_the_baseline_is_grey(base):
    looks = [look_of(number, base) for number in range(11)]
    assert looks[base].colour == GREY
    for of in ("colour", "marker", "symbol"):
        assert len({getattr(look, of) for look in looks}) == 11 == len(LOOKS)
