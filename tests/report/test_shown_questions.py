"""The choice of the questions that the page shows."""

from multiview.report.contents import outcome
from multiview.report.shown_questions import _choice


def test_outcomes_go_by_the_first_right_passage():
    assert [outcome(*ranks) for ranks in ((1, 2), (2, 1), (2, 2), (5, None), (None, 5), (None, None))] == [
        "won", "lost", "tied", "won", "lost", "tied",
    ]  # fmt: skip


def test_questions_are_of_all_kinds_in_equal_numbers():
    """Questions that a system wins are few, so a page that shows some questions shows them."""
    ranks = [(1, 1)] * 50 + [(1, 2)] * 30 + [(None, 2)] * 10 + [(2, 1)] * 2
    qids = [f"q{i}" for i in range(len(ranks))]
    chosen = _choice(qids, ranks, 0, 20)
    kinds = [ranks[row] for row in chosen.values()]
    assert kinds == [(2, 1)] * 2 + [(1, 2)] * 6 + [(None, 2)] * 6 + [(1, 1)] * 6
    assert list(_choice(qids[::-1], ranks[::-1], 0, 20)) == list(chosen), "whatever their order"
    assert sorted(_choice(qids, ranks, 0, 240)) == sorted(qids)
