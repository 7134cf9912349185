import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.index.ranking import TieOrder, best_first


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text("aZ1~éſ￮𝄞", max_size=3), unique=True, min_size=1))
def test_tie_order_is_python_s_string_order(ids):
    order = sorted(range(len(ids)), key=ids.__getitem__)
    assert TieOrder(pa.array(ids))[np.array(order)].tolist() == list(range(len(ids)))


def test_scores_fall_and_ties_rise_along_the_last_axis():
    scores = np.array([[1.0, 2.0, 2.0, -np.inf, 2.0], [0.0, 0.0, 0.0, 0.0, 1.0]])
    ties = np.array([[0, 7, 3, 9, 3], [4, 3, 2, 1, 0]])
    assert best_first(scores, ties)[:, :3].tolist() == [[2, 4, 1], [4, 3, 2]]
