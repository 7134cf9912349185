"""Passages with the marks of their winning views."""

from hypothesis import given
from hypothesis import strategies as st

from multiview.data.reading.tables import Row
from multiview.report.shown_questions import SHOWN_CHARACTERS, pieces, widths


def hit(*spans: tuple[int, int] | None, won: int = 1, scores: tuple[float, ...] = ()) -> Row:
    starts, stops = ([span and span[end] for span in spans] for end in (0, 1))
    scores = scores or tuple(float(n) for n in range(len(spans)))
    return {"view": won - 1, "view_scores": list(scores), "view_starts": starts, "view_stops": stops}


@given(
    st.builds(
        lambda text, times: text * times, st.text(max_size=30), st.integers(0, 3 * SHOWN_CHARACTERS // 30)
    ),
    st.lists(st.tuples(st.integers(0, 2200), st.integers(0, 2200)), max_size=6),
    st.integers(1, 6),
)
def test_pieces_are_the_text_or_a_part_of_it_with_the_winners_beginning(text, spans, won):
    """Whatever spans there are, overlapping, empty or beyond the text."""
    found = pieces(text, hit(*spans, won=won))
    shown = "".join(piece.text for piece in found)
    if len(text) <= SHOWN_CHARACTERS:
        assert shown == text
    else:
        assert len(shown) <= SHOWN_CHARACTERS + 2 and shown.strip("…") in text
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
    first, second = hit(None, None, scores=(4.0, 2.0)), hit(None, None, won=2, scores=(0.0, 3.0))
    assert widths(first, [first, second]) == [100, 53]
    assert widths(second, [first, second]) == [6, 76]
    assert widths(hit(None), [first]) == [], "one view"
    same = hit(None, None, scores=(1.0, 1.0))
    assert widths(same, [same]) == [100, 100]
