"""A cheap test that rules out most words that a text lacks, for many texts and words at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from multiview.data.folded import FoldedTexts

SLOTS = 4096
"""Number of kinds of pieces that are told apart. Only speed depends on it."""

PIECES = 4
"""Number of a word's pieces that are looked for. Only speed depends on it."""


class Pieces:
    """Which of some words texts may hold, by pieces of three bytes of UTF-8.

    A text that holds a word holds all pieces of it. Pieces are told apart by a hash of 12 bits, so a text that holds
    all kinds of a word's pieces may still lack the word.
    """

    def __init__(self, words: Sequence[bytes]) -> None:
        """Words shorter than three bytes may be in every text."""
        lengths = np.array([len(word) for word in words], np.int64)
        pieces = lengths - 2
        places = (np.cumsum(lengths) - lengths)[:, None] + np.arange(PIECES) * (pieces[:, None] - 1) // (
            PIECES - 1
        )
        self._slots = np.zeros((len(words), PIECES), np.intp)
        if (pieces > 0).any():
            self._slots[pieces > 0] = slots(np.frombuffer(b"".join(words), np.uint8))[places[pieces > 0]]

    def may_hold(self, texts: FoldedTexts, in_text: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Whether each text may hold a word, for pairs of a position in `texts` and a word's number [n]; [n] bool."""
        lengths = np.diff(texts.bounds)
        found = np.zeros(len(lengths) * SLOTS, bool)
        if len(texts.data) > 2:
            pieces = slots(np.frombuffer(texts.data, np.uint8))
            # A piece across the end of a text counts for it, which makes the test weaker there and no less right.
            places = np.repeat(np.arange(len(lengths)) * SLOTS, lengths)[: len(pieces)]
            places += pieces
            found[places] = True
        found[::SLOTS] = True  # the slot of short words
        first = in_text * SLOTS
        held = np.ones(len(words), bool)
        for piece in self._slots.T:
            held &= found[first + piece[words]]
        return held


def slots(data: np.ndarray) -> np.ndarray:
    """Returns the kind of each piece of three of the bytes [n] uint8, from 0 to `SLOTS` - 1 [n - 2]."""
    wide = data.astype(np.uint16)
    return (wide[:-2] * 40503 + wide[1:-1] * 30011 + wide[2:] * 17021) >> 4
