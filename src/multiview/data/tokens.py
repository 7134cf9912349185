"""Texts as DPR's `has_answer` reads them: tokens after NFD, lower-cased, and the parts of the text that they came from."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise
from typing import Literal

import regex

from multiview.data import cjk

Mode = Literal["string", "characters", "regex"]
Span = tuple[int, int]
"""Code points [start, stop) of a text."""

FLAGS = regex.IGNORECASE | regex.UNICODE | regex.MULTILINE
TOKEN = regex.compile(r"[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]", FLAGS)
ASCII_TOKEN = re.compile(r"[A-Za-z0-9]+|[!-/:-@\[-`{-~]")
"""`TOKEN` for texts of ASCII alone, in half of the time."""
CHARACTER = regex.compile(
    rf"(?=[{cjk.LETTERS}])\X|[[\p{{L}}\p{{N}}\p{{M}}]--[{cjk.LETTERS}]]+|[^\p{{Z}}\p{{C}}]",
    FLAGS | regex.VERSION1,
)
"""`TOKEN` with each letter of Chinese, Japanese and Korean as a token, as CMRC's, DRCD's and JaQuAD's scores count."""
NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
SEPARATOR = " "  # in the class Z, so no token holds it
ASCII_WORD = re.compile(r"[a-z0-9]")
SIGMAS = frozenset("Σσς")


@dataclass(frozen=True, slots=True)
class Needle:
    """An answer to look for in many texts, lower-cased."""

    joined: str
    """Its tokens between separators (see `joined_tokens`)."""
    tokens: tuple[str, ...]
    """Its tokens but those that have a sigma, which Python lower-cases by the letters around it."""
    longest: str
    """The longest of `tokens`; empty without any."""
    phrase: str
    """Its tokens between spaces; empty if one has a sigma, or other characters than letters and digits."""

    @classmethod
    def of(cls, answer: str, mode: Mode = "string") -> Needle | None:
        """Returns the needle of an answer; None for an answer without tokens."""
        if not (joined := joined_tokens(answer, mode)):
            return None
        every = joined.split(SEPARATOR)[1:-1]
        tokens = tuple(token for token in every if not SIGMAS.intersection(token))
        plain = tokens == tuple(every) and all(map(str.isalnum, tokens))
        return cls(joined, tokens, max(tokens, key=len, default=""), " ".join(tokens) if plain else "")


class TokenizedText:
    """A text that is tokenised once, when it is first needed, and searched for many answers.

    Tokens are DPR's: after NFD, runs of letters, digits and marks, or single other characters, lower-cased. In the mode
    `characters` each letter of Chinese, Japanese and Korean is a token. They are joined into one string with
    separators, so that a contiguous run of tokens is a substring.
    """

    def __init__(self, text: str, mode: Mode = "string") -> None:
        self.text = text
        self.mode: Mode = mode
        self._lowered: str | None = None

    @cached_property
    def joined(self) -> str:
        """The text's tokens between separators (see `joined_tokens`)."""
        return joined_tokens(self.text, self.mode)

    @cached_property
    def decomposed(self) -> str:
        """The text in NFD."""
        return unicodedata.normalize("NFD", self.text)

    @property
    def lowered(self) -> str:
        """The text in NFD, lower-cased: a string that it does not contain is not in `joined` either."""
        if self._lowered is None:  # `cached_property` takes as long as lower-casing
            self._lowered = (self.text if self.text.isascii() else self.decomposed).lower()
        return self._lowered

    @cached_property
    def in_place(self) -> bool:
        """Whether each code point of `lowered` is that of `text` at the same place, lower-cased."""
        same = self.text.isascii() or self.decomposed == self.text
        return same and len(self.lowered) == len(self.text)  # some code points become two

    def find(self, answer: str) -> list[Span]:
        """Returns the spans of all occurrences of the answer's tokens, in code points of the original text."""
        needle = joined_tokens(answer, self.mode)
        if not needle or needle not in self.joined:
            return []
        length = needle.count(SEPARATOR) - 1
        firsts: list[int] = []
        first = before = 0
        offset = self.joined.find(needle)
        while offset >= 0:
            # The separator at `offset` is that before the first token.
            first += self.joined.count(SEPARATOR, before, offset)
            firsts.append(first)
            before, offset = offset, self.joined.find(needle, offset + 1)
        return self._covered(firsts, length)

    def has_tokens(self, needle: Needle) -> bool:
        """Whether the text has the needle's tokens; its longest token is known to be in `lowered`."""
        if needle.phrase and stands_alone(needle.phrase, self.lowered, clearly=True):
            return True
        if not stands_alone(needle.longest, self.lowered):
            return False
        return all(token in self.lowered for token in needle.tokens) and needle.joined in self.joined

    def _covered(self, firsts: Sequence[int], length: int) -> list[Span]:
        """The parts of `text` that the `length` tokens from each of `firsts` on, which rise, came from."""
        if not self.text.isascii():
            runs = (self._token_spans[first : first + length] for first in firsts)
            return [(min(start for start, _ in run), max(stop for _, stop in run)) for run in runs]
        if len(firsts) == 1:
            tokens = list(islice(ASCII_TOKEN.finditer(self.text), firsts[0], firsts[0] + length))
            return [(tokens[0].start(), tokens[-1].end())]
        lasts = [first + length - 1 for first in firsts]
        ends = zip(self._ascii_tokens(firsts), self._ascii_tokens(lasts), strict=True)
        return [(begin.start(), end.end()) for begin, end in ends]

    def _ascii_tokens(self, numbers: Sequence[int]) -> Iterator[re.Match[str]]:
        """Yields the tokens of these numbers, which rise, in one pass."""
        tokens = ASCII_TOKEN.finditer(self.text)
        for before, number in pairwise((-1, *numbers)):
            yield next(islice(tokens, number - before - 1, None))

    @cached_property
    def _token_spans(self) -> list[Span]:
        """The part of `text` that each token came from, where the text has to be decomposed."""
        decomposed, origin = decompose(self.text)
        return [original_span(origin, *token.span()) for token in _token(self.mode).finditer(decomposed)]


def _token(mode: Mode) -> regex.Pattern[str]:
    return CHARACTER if mode == "characters" else TOKEN


def joined_tokens(text: str, mode: Mode = "string") -> str:
    """Returns the text's tokens, lower-cased, each between two separators; empty without tokens."""
    if text.isascii():
        tokens = ASCII_TOKEN.findall(text)
    else:
        tokens = _token(mode).findall(unicodedata.normalize("NFD", text))
    if not tokens:
        return ""
    return f"{SEPARATOR}{SEPARATOR.join(tokens)}{SEPARATOR}".lower()


def decompose(text: str) -> tuple[str, Sequence[int]]:
    """Returns the text in NFD, and per code point of the result the index in `text` that it came from.

    This follows the Unicode standard: decompose each code point, then sort each run of combining marks stably by
    combining class.
    """
    if unicodedata.is_normalized("NFD", text):
        return text, range(len(text))
    decomposed: list[str] = []
    origin: list[int] = []
    done = 0
    for match in NOT_ASCII.finditer(text):
        # ASCII is not decomposed, and holds no mark.
        decomposed.append(text[done : match.start()])
        origin += range(done, match.start())
        pieces: list[tuple[int, str, int]] = []  # combining class, code point, origin
        run = 0  # start of the current run of marks
        for index in range(*match.span()):
            for point in unicodedata.normalize("NFD", text[index]):
                rank = unicodedata.combining(point)
                if rank == 0:
                    pieces[run:] = sorted(pieces[run:], key=_rank)
                    run = len(pieces) + 1
                pieces.append((rank, point, index))
        pieces[run:] = sorted(pieces[run:], key=_rank)
        decomposed += [point for _, point, _ in pieces]
        origin += [index for _, _, index in pieces]
        done = match.end()
    decomposed.append(text[done:])
    origin += range(done, len(text))
    return "".join(decomposed), origin


def _rank(piece: tuple[int, str, int]) -> int:
    return piece[0]


def original_span(origin: Sequence[int], start: int, stop: int) -> Span:
    """Returns the span of the original text that decomposed code points [start, stop) came from."""
    indices = origin[start:stop]
    return min(indices), max(indices) + 1


def stands_alone(
    piece: str, lowered: str, clearly: bool = False, span: tuple[int, int | None] = (0, None)
) -> bool:
    """Whether a piece that is one word or several may be words of a text: no letter or digit of ASCII is next to it.

    `clearly`: it is words of the text, since only other characters of ASCII are next to it. With a `span`, only pieces
    within it count.
    """
    if not clearly and (not piece.isalnum() or (not piece.isascii() and cjk.has_letters(piece))):
        return True
    first, last = span
    start = lowered.find(piece, first, last)
    while start >= 0:
        stop = start + len(piece)
        around = lowered[start - 1 : start] + lowered[stop : stop + 1]
        if not ASCII_WORD.search(around) and (around.isascii() or not clearly):
            return True
        start = lowered.find(piece, start + 1, last)
    return False
