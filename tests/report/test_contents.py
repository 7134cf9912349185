"""The look of each system in charts."""

import pytest

from multiview.evaluation.tables import Significance
from multiview.report.contents import GREY, LOOKS, Contents, System


@pytest.mark.parametrize("base", [0, 3, 10])
def test_no_two_of_eleven_systems_look_alike_and_the_baseline_is_grey(base):
    systems = [System(str(number), number, {}) for number in range(11)]
    significance = Significance(baseline=str(base), test="", systems={})
    contents = Contents(
        systems, str(base), significance, passages=0, questions=0, results=[], texts={}, digest=""
    )
    looks = [contents.look(system) for system in systems]
    later = [contents.look(System(str(number), number, {})) for number in range(11, 40)]
    assert GREY not in {look.colour for look in later}
    assert looks[base].colour == GREY
    for of in ("colour", "marker", "symbol"):
        assert len({getattr(look, of) for look in looks}) == 11 == len(LOOKS)
