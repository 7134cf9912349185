"""What the page is made of: words, passages with their marks, the choice of questions, trainings."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from multiview.lineage.ancestry import Ancestor
from multiview.report.choosing import _in_turns, all_wrong, outcome
from multiview.report.contents import Contents, ShownHit, ShownView, System
from multiview.report.drawing import MARKERS, Chart, Look
from multiview.report.page import Group, fitting
from multiview.report.passages import LONGEST, bars, pieces
from multiview.report.summary import duration, size, summary
from multiview.report.trainings import POINTS, trainings
from tests.fixtures.compared_systems import CAMVR, ComparedSystems

# --- words -------------------------------------------------------------------------------------


def contents(values: dict[str, float], p: float | None = None, **more: Any) -> Contents:
    """Systems with one metric; all differ from the first one with this corrected p."""
    base, *_ = values
    systems = [
        System(name, place, {"accuracy_at_5": value}) for place, (name, value) in enumerate(values.items())
    ]
    figures = {
        name: {
            "accuracy_at_5": {"difference": value - values[base], "corrected_p": None if name == base else p}
        }
        for name, value in values.items()
    }
    given = {"passages": 1000, "questions": 100, "asked": [], "texts": {}, "digest": "d", **more}
    return Contents(systems, base, {"baseline": base, "systems": figures}, **given)


def words(of: Contents) -> dict[str, str]:
    return {said.about: said.text for said in summary(of)}


def test_the_summary_says_who_is_best_by_how_much_and_whether_it_may_be_chance():
    said = words(contents({"mvr": 0.5, "camvr": 0.75}, 0.0004))
    assert said["acc@5"] == "camvr is best with 75.0 %, 25.0 points above mvr (significant, p < 0.001)."
    assert said["Tests"] == "Against mvr: camvr is significantly better on 1 of 1 metric."
    said = words(contents({"mvr": 0.5, "camvr": 0.51}, 0.4))
    assert said["acc@5"] == "camvr is best with 51.0 %, 1.0 points above mvr (not significant, p = 0.40)."
    assert said["Tests"].startswith("No system differs significantly from mvr on any metric")
    said = words(contents({"mvr": 0.5, "camvr": 0.25, "dpr": 0.125}, 0.049))
    assert said["acc@5"] == "mvr is best with 50.0 %, 25.0 points above camvr (significant, p = 0.049)."
    assert said["Tests"] == (
        "Against mvr: camvr is significantly worse on 1 of 1 metric; dpr is significantly worse on 1 of 1 metric."
    )


def test_the_summary_of_ties_of_one_system_and_of_nothing():
    said = words(contents({"mvr": 0.5, "camvr": 0.75, "dpr": 0.75}, 0.01))
    assert said["acc@5"].startswith("camvr and dpr are best with 75.0 %, 25.0 points above mvr (significant")
    assert words(contents({"mvr": 0.5, "camvr": 0.5}, 1.0))["acc@5"] == "All systems reach the same, 50.0 %."
    said = words(contents({"camvr": 0.5}))
    assert (
        said["Asked"] == "camvr answered 100 questions over 1,000 passages."
        and said["Reached"] == "50.0 % at acc@5."
    )
    nothing = Contents(
        [System("a", 0, {}), System("b", 1, {})], "a", {"baseline": "a", "systems": {}}, 0, 0, [], {}, "d"
    )
    assert words(nothing) == {"Asked": "2 systems answered the same 0 questions."}


def test_the_summary_of_costs_and_of_collapsed_views():
    cost = {
        "mvr": {"compute_seconds": 125.0, "index_bytes": 8e6},
        "camvr": {"compute_seconds": 61.0, "index_bytes": 2e6},
    }
    said = words(contents({"mvr": 0.5, "camvr": 0.5}, cost=cost))["Cost"]
    assert "mvr took the most computing, 2 min 5 s, camvr the least, 1 min 1 s" in said
    assert "mvr's index is the largest with 8.0 MB, 4.0 times that of camvr (2.0 MB)." in said
    systems = [
        System("alike", 0, {}, analyses={"view_cosine": 0.999}),
        System("one", 1, {}, usage={"share_of_top_1": [0.04, 0.96]}),
        System("fine", 2, {}, analyses={"view_cosine": 0.7}, usage={"share_of_top_1": [0.5, 0.5]}),
        System("single", 3, {}, usage={"share_of_top_1": [1.0]}),
    ]
    said = words(Contents(systems, "alike", {"baseline": "alike", "systems": {}}, 1, 100, [], {}, "d"))[
        "Views"
    ]
    assert "alike's views have collapsed" in said and "view 2 wins 96 % of the questions" in said
    assert "fine" not in said and "single" not in said


def test_durations_and_sizes():
    assert [duration(s) for s in (0.52, 48.2, 60, 425, 11_520)] == [
        "0.5 s",
        "48 s",
        "1 min 0 s",
        "7 min 5 s",
        "3 h 12 min",
    ]
    assert [size(b) for b in (12, 2_400, 3.4e6, 5e13)] == ["12 B", "2.4 kB", "3.4 MB", "50.0 TB"]


# --- passages ----------------------------------------------------------------------------------


def hit(*spans: tuple[int, int] | None, won: int = 1, scores: tuple[float, ...] = ()) -> ShownHit:
    scores = scores or tuple(float(n) for n in range(len(spans)))
    views = tuple(
        ShownView(number, score, *(span or (None, None)))
        for number, (span, score) in enumerate(zip(spans, scores, strict=True), start=1)
    )
    return ShownHit(1, "p", 1.0, False, False, won, views)


@given(
    st.builds(lambda text, times: text * times, st.text(max_size=30), st.integers(0, 3 * LONGEST // 30)),
    st.lists(st.tuples(st.integers(0, 2200), st.integers(0, 2200)), max_size=6),
    st.integers(1, 6),
)
def test_pieces_are_the_text_or_a_part_of_it_with_the_winners_beginning(text, spans, won):
    """Whatever spans there are, overlapping, empty or beyond the text."""
    found = pieces(text, hit(*spans, won=won))
    shown = "".join(piece.text for piece in found)
    if len(text) <= LONGEST:
        assert shown == text
    else:
        assert len(shown) <= LONGEST + 2 and shown.strip("…") in text
    assert sum(piece.won for piece in found) <= 1
    for piece in found:
        if piece.won:
            start, stop = spans[won - 1]
            assert text[start:stop].startswith(piece.text)


def test_the_winner_alone_is_marked_where_views_overlap_and_the_whole_text_never_is():
    def shown(*spans, won: int) -> list[tuple]:
        return [(piece.text, piece.view, piece.won) for piece in pieces("abcdef", hit(*spans, won=won))]

    assert shown(None, (0, 3), (3, 6), won=3) == [("abc", 2, False), ("def", 3, True)]
    assert shown((0, 4), (2, 6), won=2) == [("ab", None, False), ("cdef", 2, True)]
    assert shown((0, 6), won=1) == [("abcdef", None, False)]
    assert shown((0, 3), (3, 6), won=7) == [("abc", 1, False), ("def", 2, False)]


def test_bars_of_a_systems_passages_have_one_scale():
    one, two = hit(None, None, scores=(4.0, 2.0)), hit(None, None, won=2, scores=(0.0, 3.0))
    assert [(bar.view, bar.score, bar.width, bar.won) for bar in bars(one, [one, two])] == [
        (1, "4.00", 100, True),
        (2, "2.00", 53, False),
    ]
    assert [bar.width for bar in bars(two, [one, two])] == [6, 76]
    assert bars(hit(None), [one]) == [], "one view"
    many = hit(*[None] * 40, won=30)
    assert [bar.view for bar in bars(many, [many])] == [*range(1, 16), 30], "the winner is among them"
    same = hit(None, None, scores=(1.0, 1.0))
    assert [bar.width for bar in bars(same, [same])] == [100, 100]


# --- questions ---------------------------------------------------------------------------------


def test_outcomes_go_by_the_first_right_passage():
    assert [outcome(*ranks) for ranks in ((1, 2), (2, 1), (2, 2), (5, None), (None, 5), (None, None))] == [
        "won", "lost", "tied", "won", "lost", "tied",
    ]  # fmt: skip
    assert all_wrong([2, None]) and not all_wrong([1, None])


def test_questions_come_in_turns_from_all_kinds():
    """Those that are won are few: a page that shows some questions shows them."""
    ranks = np.array([[1, 1]] * 50 + [[1, 2]] * 30 + [[0, 2]] * 10 + [[2, 1]] * 2)
    qids = [f"q{i}" for i in range(len(ranks))]
    order = _in_turns(qids, ranks, 0)
    assert sorted(order) == list(range(len(ranks)))
    kinds = [tuple(ranks[row]) for row in order]
    assert kinds[:8] == [(2, 1), (1, 2), (0, 2), (1, 1)] * 2
    again = _in_turns(qids[::-1], ranks[::-1], 0)
    assert [qids[row] for row in order] == [qids[::-1][row] for row in again], "whatever their order"


# --- models ------------------------------------------------------------------------------------


def test_trainings_are_found_through_the_negatives_and_after_the_warm_up(tmp_path):
    compared = ComparedSystems(tmp_path, {"camvr": CAMVR})
    fill = lambda path: (path / "multiview.json").write_text("{}")  # noqa: E731
    ready = {"start": ["camvr-start"]}
    compared.publish("model", "warm-up", "warm", fill, ready, curves={"loss": [9, 8, 7]})
    compared.publish("negatives", "bm25-negatives", "easy", lambda path: None)
    compared.publish(
        "model", "train", "one", fill, {"start": ["warm"], "negatives": ["easy"]}, curves={"loss": [3, 2, 1]}
    )
    compared.publish("negatives", "mine", "hard", lambda path: None, {"model": ["one"]})
    inputs = {"start": ["warm"], "negatives": ["hard"]}
    compared.publish(
        "model", "train", "two", fill, inputs, curves={"loss": [2, 1, 0.5], "view_1_wins": [1, 1, 1]}
    )
    found = trainings(Ancestor(compared.store, compared.made["two"]))
    assert [(t.name, list(t.curves["loss"].values())) for t in found] == [
        ("warm-up", [9, 8, 7]),
        ("round 1", [3, 2, 1]),
        ("round 2", [2, 1, 0.5]),
    ]
    assert [t.wins for t in found] == [[], [], [{10: 1, 20: 1, 30: 1}]]
    assert trainings(Ancestor(compared.store, compared.made["camvr-start"])) == []


def test_long_curves_are_thinned_and_keep_their_end(tmp_path):
    from multiview.report.trainings import _thinned

    for length in (1, POINTS, POINTS + 1, 1000):
        curve = _thinned({step: float(step) for step in range(length)})
        assert len(curve) <= POINTS and list(curve)[-1] == length - 1
        assert list(curve) == sorted(curve)


def test_what_there_is_no_room_for_is_named():
    def group(title: str, *sizes: int) -> Group:
        row = System("a", 0, {})
        return Group(title, "", [(row, Chart("", Markup("x" * size), (), [])) for size in sizes])

    groups = [group("one", 40, 40), group("two", 30), group("three", 5, 5)]
    shown, left = fitting(groups, 100)
    assert [one.title for one in shown] == ["one", "three"] and left == ["two"]
    assert fitting(groups, 120) == (groups, [])


@pytest.mark.parametrize("base", [0, 3, 10])
def test_no_two_of_eleven_systems_look_alike_and_the_baseline_is_grey(base):
    looks = [Look.of(place, base) for place in range(11)]
    assert looks[base].colour == 0 and [look.colour for look in looks].count(0) == 1
    assert len({look.marker for look in looks}) == 11 == len(MARKERS)
    for one, other in itertools.combinations(looks, 2):
        assert (one.colour, one.dashed) != (other.colour, other.dashed)
