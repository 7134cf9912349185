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


def test_ties_go_to_the_earlier_snippet_and_to_the_left_neighbour():
    # Lengths 3 2 3 2 3: the first 2 goes to the left 3; then the other 2 has 3 on its left and right.
    ends = (3, 5, 8, 10, 13)
    assert [s.span for s in split_snippets("", "x" * 13, ends, 4)] == [(0, 5), (5, 8), (8, 10), (10, 13)]
    assert [s.span for s in split_snippets("", "x" * 13, ends, 3)] == [(0, 5), (5, 10), (10, 13)]


def test_thousands_of_sentences_take_no_time():
    # The paper's loop needs 10^9 steps here.
    ends = list(range(3, 90_001, 3))
    snippets = split_snippets("Long", "ab." * 30_000, ends, 8)
    assert len(snippets) == 8 and snippets[-1].span is not None and snippets[-1].span[1] == 90_000


def test_no_snippets_is_an_error():
    with pytest.raises(ValueError, match="at least one"):
        split_snippets("Title", "One.", (4,), 0)
