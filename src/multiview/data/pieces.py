"""A cheap test that rules out most words that a text lacks, for many texts and words at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

SLOTS = 4096
"""Number of kinds of pieces that are told apart. Only speed depends on it."""

PIECES = 4
"""Number of a word's pieces that are looked for. Only speed depends on it."""


class Pieces:
    """Which of some words texts may hold, by pieces of three bytes of UTF-8.

    A text that holds a word holds all pieces of it. Pieces are told apart by a hash of 12 bits, so a text that holds
    all kinds of a word's pieces may still lack the word.
    """

    def __init__(self, words: Sequence[str]) -> None:
        """Words shorter than three bytes may be in every text."""
        self._slots = np.zeros((len(words), PIECES), np.intp)
        for number, word in enumerate(words):
            if len(pieces := slots(np.frombuffer(word.encode("utf-8", "surrogatepass"), np.uint8))):
                self._slots[number] = pieces[np.arange(PIECES) * (len(pieces) - 1) // (PIECES - 1)]

    def may_hold(self, texts: Sequence[str], in_text: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Whether each text may hold a word, for pairs of a position in `texts` and a word's number [n]; [n] bool."""
        encoded = [text if text.isascii() else text.encode("utf-8", "surrogatepass") for text in texts]
        _, offsets, data = pa.array(encoded, pa.large_binary()).buffers()
        stops = np.frombuffer(offsets, np.int64)[: len(texts) + 1]
        found = np.zeros((len(texts), SLOTS), bool)
        if stops[-1]:
            pieces = slots(np.frombuffer(data, np.uint8)[: stops[-1]])
            # A piece across the end of a text counts for it, which makes the test weaker there and no less right.
            texts_of_pieces = np.repeat(np.arange(len(texts)) * SLOTS, np.diff(stops))[: len(pieces)]
            texts_of_pieces += pieces
            found.ravel()[texts_of_pieces] = True
        found[:, 0] = True  # the slot of short words
        first = in_text * SLOTS
        held = np.ones(len(words), bool)
        for piece in self._slots.T:
            held &= found.ravel()[first + piece[words]]
        return held


def slots(data: np.ndarray) -> np.ndarray:
    """Returns the kind of each piece of three of the bytes [n] uint8, from 0 to `SLOTS` - 1 [n - 2]."""
    wide = data.astype(np.uint16)
    return (wide[:-2] * 40503 + wide[1:-1] * 30011 + wide[2:] * 17021) >> 4
