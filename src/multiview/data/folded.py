"""Many texts folded at once, as bytes, so that each is searched without a string of its own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from multiview.data.tokens import fold

LOWER = bytes(32 if byte < 32 or byte == 127 else byte for byte in range(128)).lower() + bytes(
    range(128, 256)
)
"""What becomes of each byte: of ASCII, `fold`; the others stay."""
WORD = bytes(2 if byte > 127 else chr(byte).isalnum() for byte in range(256))
"""Whether each byte belongs to a word: 0 no, 1 yes, 2 as the character says that it is a part of."""
SHORT = 32
"""Bytes of a run of other characters than ASCII up to which its folded form is remembered. Only speed depends on it."""


@dataclass(frozen=True, slots=True)
class FoldedTexts:
    """Texts as `multiview.data.tokens.fold` returns them, in UTF-8, one after another. Blanks at their ends may be lacking."""

    data: bytes
    bounds: np.ndarray
    """Where each text begins, and the last one ends [n + 1] int64."""

    @classmethod
    def of(cls, texts: pa.Array) -> FoldedTexts:
        """Folds texts [n], which are strings without nulls.

        >>> FoldedTexts.of(pa.array(["A  Tower", "Sea"])).data
        b'a towersea'
        """
        texts = texts.cast(pa.large_string())
        _, offsets, data = texts.buffers()
        if not len(texts) or data is None:
            return cls(b"", np.zeros(len(texts) + 1, np.int64))
        bounds = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        lowered = bytes(memoryview(data)[bounds[0] : bounds[-1]]).translate(LOWER)
        return cls(*_without_double_blanks(*_folded_runs(lowered, bounds - bounds[0])))

    def text(self, number: int) -> str:
        return self.data[self.bounds[number] : self.bounds[number + 1]].decode()


def alone(phrase: bytes, data: bytes, first: int, stop: int) -> bool | None:
    """Whether a phrase occurs in a folded text, data[first:stop], where no word goes on beyond its ends.

    None where other characters than ASCII decide it. See `multiview.data.tokens.stands_alone`, for strings.

    >>> alone(b"sea", b"seal, sea", 0, 9), alone(b"sea", b"seal", 0, 4)
    (True, False)
    """
    sure, at = True, data.find(phrase, first, stop)
    while at >= 0:
        end = at + len(phrase)
        # 0 where either side is no part of a word, 1 where both are.
        before = WORD[phrase[0]] * WORD[data[at - 1]] if at > first else 0
        after = WORD[phrase[-1]] * WORD[data[end]] if end < stop else 0
        if not before and not after:
            return True
        sure &= before == 1 or after == 1
        at = data.find(phrase, at + 1, stop)
    return False if sure else None


def _folded_runs(data: bytes, bounds: np.ndarray) -> tuple[bytes, np.ndarray]:
    """Folds each run of other characters than ASCII, which ends where its text does."""
    at = np.flatnonzero(np.frombuffer(data, np.uint8) > 127)
    if not len(at):
        return data, bounds
    begins = np.diff(at, prepend=-2) > 1
    begins |= np.diff(np.searchsorted(bounds, at, side="right"), prepend=-1) > 0
    starts, stops = at[begins], at[np.roll(begins, -1)] + 1
    parts, done = [], 0
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        run = data[start:stop]
        parts += data[done:start], (_remembered(run) if len(run) <= SHORT else _folded(run))
        done = stop
    longer = np.array([len(part) for part in parts[1::2]]) - (stops - starts)
    parts.append(data[done:])
    moved = np.append(0, np.cumsum(longer))[np.searchsorted(starts, bounds)]
    return b"".join(parts), bounds + moved


def _folded(run: bytes) -> bytes:
    return fold(run.decode()).encode()


_remembered = lru_cache(maxsize=1 << 14)(_folded)


def _without_double_blanks(data: bytes, bounds: np.ndarray) -> tuple[bytes, np.ndarray]:
    """Leaves out each blank after a blank."""
    blank = np.frombuffer(data, np.uint8) == 32
    twice = np.flatnonzero(blank[1:] & blank[:-1]) + 1
    if not len(twice):
        return data, bounds
    starts, stops = [0, *(twice + 1).tolist()], [*twice.tolist(), len(data)]
    kept = b"".join([data[start:stop] for start, stop in zip(starts, stops, strict=True)])
    return kept, bounds - np.searchsorted(twice, bounds)
