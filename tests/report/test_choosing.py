"""The choice of the questions that the page shows."""

import numpy as np

from multiview.report.choosing import _in_turns, all_wrong, outcome


def test_outcomes_go_by_the_first_right_passage():
    assert [outcome(*ranks) for ranks in ((1, 2), (2, 1), (2, 2), (5, None), (None, 5), (None, None))] == [
        "won", "lost", "tied", "won", "lost", "tied",
    ]  # fmt: skip
    assert all_wrong([2, None]) and not all_wrong([1, None])


def test_questions_come_in_turns_from_all_kinds():
    """Questions that a system wins are few, so a page that shows some questions shows them."""
    ranks = np.array([[1, 1]] * 50 + [[1, 2]] * 30 + [[0, 2]] * 10 + [[2, 1]] * 2)
    qids = [f"q{i}" for i in range(len(ranks))]
    order = _in_turns(qids, ranks, 0)
    assert sorted(order) == list(range(len(ranks)))
    kinds = [tuple(ranks[row]) for row in order]
    assert kinds[:8] == [(2, 1), (1, 2), (0, 2), (1, 1)] * 2
    again = _in_turns(qids[::-1], ranks[::-1], 0)
    assert [qids[row] for row in order] == [qids[::-1][row] for row in again], "whatever their order"
