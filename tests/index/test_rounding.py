"""The bar that products must reach leaves out no view with a score as high."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.index.rounding import UNDERFLOW, Rounding


@settings(max_examples=300, deadline=None)
@given(
    st.floats(-(2.0**100), 2.0**100, width=32),
    st.floats(0, 2.0**100),
    st.sampled_from([0.0, 2.0**-9, 2.0**-8, 2.0**-7]),
)
def test_a_product_below_the_bar_has_a_lower_score(product, absolute, relative):
    """Of the products below it, the highest in float32, whatever its rounding."""
    own = 2.0**-22 * (abs(product) + absolute) + UNDERFLOW  # for the rounding of the bar
    rounding = Rounding(np.array([absolute + own]), relative)
    least = rounding.least(np.array([product], np.float32))
    assert least[0] <= product - relative * abs(product) - absolute
    (bar,) = rounding.lowest(least)
    below = float(np.nextafter(bar, np.float32(-np.inf)))
    assert below + relative * abs(below) + absolute <= least[0]
