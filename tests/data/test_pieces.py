"""The test that rules words out never rules out a word that a text holds, and rules out most others."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.data.folded import FoldedTexts
from multiview.data.pieces import SLOTS, Pieces, slots
from multiview.data.tokens import fold

words = st.lists(st.text("abcé東 ", max_size=6).map(str.strip), max_size=5)
"""Words do not begin or end with the blanks that folded texts may lack there."""


def every_pair(texts: list[str], words: list[str]) -> list[list[bool]]:
    in_text, numbers = np.divmod(np.arange(len(texts) * len(words)), max(1, len(words)))
    pieces = Pieces([fold(word).encode() for word in words])
    held = pieces.may_hold(FoldedTexts.of(pa.array(texts, pa.string())), in_text, numbers)
    return held.reshape(len(texts), len(words)).tolist()


@settings(max_examples=200, deadline=None)
@given(words, st.lists(st.text("abcé東 ", max_size=20), max_size=5))
def test_no_word_is_ruled_out_of_a_text_that_holds_it(words, texts):
    texts += ["b" + "".join(words) + "c"]
    for text, possible in zip(texts, every_pair(texts, words), strict=True):
        assert all(may or fold(word) not in fold(text) for may, word in zip(possible, words, strict=True))


def test_a_short_word_may_be_anywhere_and_most_long_ones_are_ruled_out():
    texts = ["the lighthouse stood on the cliff", "a harbour with two piers", ""]
    assert every_pair(texts, ["", "a", "no", "lighthouse", "harbour", "Harbours"]) == [
        [True, True, True, True, False, False],
        [True, True, True, False, True, False],
        [True, True, True, False, False, False],
    ]


def test_kinds_of_pieces_are_all_in_use():
    data = np.random.default_rng(0).integers(0, 256, 1 << 17).astype(np.uint8)
    assert np.unique(slots(data)).tolist() == list(range(SLOTS))
