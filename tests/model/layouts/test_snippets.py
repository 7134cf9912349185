"""Algorithm 1 of CAMVR, with the decisions of the specification."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.model.layouts.snippets import Snippet, split_snippets


def papers_loop(title: str, text: str, sentence_ends: list[int], n: int, merge_title: bool):
    """Algorithm 1 as the paper writes it: look for the shortest, merge, again. O(k²).

    A part is [length, spans], where the span of the title is None.
    """
    sentences = [[stop - start, [(start, stop)]] for start, stop in pairwise([0, *sentence_ends])]
    titles = [[len(title), [None]]] if title.strip() else []
    apart = titles if not merge_title and n > 1 else []
    parts = sentences if apart else titles + sentences
    while len(parts) > n - len(apart):
        shortest = min(range(len(parts)), key=lambda i: (parts[i][0], i))
        neighbours = [i for i in (shortest - 1, shortest + 1) if 0 <= i < len(parts)]
        neighbour = min(neighbours, key=lambda i: (parts[i][0], i))
        first, second = sorted((shortest, neighbour))
        parts[first : second + 1] = [[parts[first][0] + parts[second][0], parts[first][1] + parts[second][1]]]
    snippets = []
    for _, spans in [*apart, *parts]:
        body = [span for span in spans if span is not None]
        span = (body[0][0], body[-1][1]) if body else None
        words = f"{title} " if spans[0] is None and text else title if spans[0] is None else ""
        snippets.append(Snippet(words + (text[span[0] : span[1]] if span else ""), span))
    return snippets + [Snippet("", None, True)] * (n - len(snippets))


@st.composite
def passages(draw):
    # Few different lengths, so that ties are the rule.
    lengths = draw(st.lists(st.integers(1, 4), max_size=25))
    ends = [sum(lengths[: i + 1]) for i in range(len(lengths))]
    text = draw(st.text("ab ", min_size=sum(lengths), max_size=sum(lengths)))
    return draw(st.sampled_from(["", " ", "a", "ab", "abcdef"])), text, ends


@given(passages(), st.integers(1, 12), st.booleans())
@settings(max_examples=150, deadline=None)
def test_equals_the_papers_loop(passage, n, merge_title):
    title, text, ends = passage
    assert split_snippets(title, text, ends, n, merge_title) == papers_loop(title, text, ends, n, merge_title)


@given(passages(), st.integers(1, 12), st.booleans())
@settings(max_examples=100, deadline=None)
def test_always_n_snippets_whose_spans_partition_the_text_padding_last(passage, n, merge_title):
    title, text, ends = passage
    snippets = split_snippets(title, text, ends, n, merge_title)
    assert len(snippets) == n
    spans = [snippet.span for snippet in snippets if snippet.span is not None]
    assert [start for start, _ in spans] == [0, *(stop for _, stop in spans)][: len(spans)]
    assert "".join(text[start:stop] for start, stop in spans) == text
    flags = [snippet.padding for snippet in snippets]
    assert flags == sorted(flags)
    assert all(snippet.text == "" and snippet.span is None for snippet in snippets if snippet.padding)


TEXT = "One two. Three four five. Six. "
ENDS = (9, 26, 31)


def test_title_is_snippet_one_and_missing_ones_are_padding_at_the_end():
    assert split_snippets("Title", TEXT, ENDS, 6) == [
        Snippet("Title ", None),
        Snippet("One two. ", (0, 9)),
        Snippet("Three four five. ", (9, 26)),
        Snippet("Six. ", (26, 31)),
        Snippet("", None, padding=True),
        Snippet("", None, padding=True),
    ]


def test_shortest_merges_with_its_shorter_neighbour_the_title_too():
    # Lengths 5, 9, 17, 5: the title is the earlier of the two shortest and has one neighbour.
    assert [snippet.text for snippet in split_snippets("Title", TEXT, ENDS, 3)] == [
        "Title One two. ",
        "Three four five. ",
        "Six. ",
    ]


def test_ties_go_to_the_earlier_snippet_and_to_the_left_neighbour():
    # Lengths 3 2 3 2 3: the first 2 goes to the left 3; then the other 2 has 3 on its left and right.
    ends = (3, 5, 8, 10, 13)
    assert [s.span for s in split_snippets("", "x" * 13, ends, 4)] == [(0, 5), (5, 8), (8, 10), (10, 13)]
    assert [s.span for s in split_snippets("", "x" * 13, ends, 3)] == [(0, 5), (5, 10), (10, 13)]


def test_a_blank_title_is_no_snippet():
    assert split_snippets("", TEXT, ENDS, 3)[0] == Snippet("One two. ", (0, 9))
    assert split_snippets(" ", TEXT, ENDS, 3)[0] == Snippet("One two. ", (0, 9))


def test_title_kept_apart_unless_there_is_one_view():
    apart = split_snippets("Title", TEXT, ENDS, 3, merge_title=False)
    # 9 and 17 and 5: "Six. " has one neighbour.
    assert [s.span for s in apart] == [None, (0, 9), (9, 31)]
    assert split_snippets("Title", TEXT, ENDS, 1, merge_title=False) == [Snippet("Title " + TEXT, (0, 31))]


def test_white_space_counts_in_a_sentences_length():
    # Without the two spaces the first sentence would be the shorter: 3 against 4.
    text = "Ab.  Cde.Fghijkl."
    assert [s.span for s in split_snippets("", text, (5, 9, 17), 2)] == [(0, 9), (9, 17)]
    assert [s.span for s in split_snippets("T" * 6, text, (5, 9, 17), 3)] == [None, (0, 9), (9, 17)]


def test_thousands_of_sentences_take_no_time():
    # The paper's loop needs 10^9 steps here.
    ends = list(range(3, 90_001, 3))
    snippets = split_snippets("Long", "ab." * 30_000, ends, 8)
    assert len(snippets) == 8 and snippets[-1].span is not None and snippets[-1].span[1] == 90_000


def test_no_snippets_is_an_error():
    with pytest.raises(ValueError, match="at least one"):
        split_snippets("Title", TEXT, ENDS, 0)
