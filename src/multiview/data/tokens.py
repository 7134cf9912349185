"""Texts as DPR's `has_answer` reads them: lower-cased tokens of the NFD text, with the spans that they came from."""

import unicodedata
from collections.abc import Sequence
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import Literal, NamedTuple, Self

import regex

from multiview.data import cjk

Mode = Literal["string", "characters", "regex"]
Span = tuple[int, int]
"""Code points [start, stop) of a text."""

FLAGS = regex.IGNORECASE | regex.UNICODE | regex.MULTILINE
TOKEN = regex.compile(r"[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]", FLAGS)
CHARACTER = regex.compile(
    rf"(?=[{cjk.LETTERS}])\X|[[\p{{L}}\p{{N}}\p{{M}}]--[{cjk.LETTERS}]]+|[^\p{{Z}}\p{{C}}]",
    FLAGS | regex.VERSION1,
)
"""`TOKEN`, but each Chinese, Japanese or Korean letter is a token, as in the scores of CMRC, DRCD and JaQuAD."""
SEPARATOR = " "  # in the class Z, so no token holds it
SIGMA, FINAL_SIGMA = "\u03c3", "\u03c2"


class Needle(NamedTuple):
    """An answer to look for in many texts."""

    joined: str
    """Its tokens between separators (see `joined_tokens`)."""
    tokens: list[str]
    """Its tokens as in a normalised text, the longest first: a text without one of them need not be tokenised."""

    @classmethod
    def of(cls, answer: str, mode: Mode = "string") -> Self | None:
        """Returns the needle of an answer; None for an answer without tokens."""
        if not (joined := joined_tokens(answer, mode)):
            return None
        return cls(joined, sorted(normalized(joined).split(SEPARATOR), key=len, reverse=True))


class TokenizedText:
    """A text that is tokenised once, when it is first needed, and searched for many answers.

    Tokens are DPR's: after NFD, runs of letters, digits and marks, or single other characters, lower-cased. They are joined
    into one string with separators, so that a contiguous run of tokens is a substring.
    """

    def __init__(self, text: str, mode: Mode = "string") -> None:
        self.text = text
        self.mode: Mode = mode

    @cached_property
    def normalized(self) -> str:
        """The text as `normalized` returns it, which rules out most answers without tokenising."""
        return normalized(self.text)

    @cached_property
    def joined(self) -> str:
        return joined_tokens(self.text, self.mode)

    @cached_property
    def decomposed(self) -> str:
        return unicodedata.normalize("NFD", self.text)

    def holds(self, needle: Needle) -> bool:
        """Whether the text has the needle's tokens, one after another."""
        return all(map(self.normalized.__contains__, needle.tokens)) and needle.joined in self.joined

    def find(self, answer: str) -> list[Span]:
        """Returns the spans of all occurrences of the answer's tokens, in code points of the original text."""
        needle = joined_tokens(answer, self.mode)
        if not needle or needle not in self.joined:
            return []
        length = needle.count(SEPARATOR) - 1
        spans: list[Span] = []
        first = before = 0
        offset = self.joined.find(needle)
        while offset >= 0:
            first += self.joined.count(SEPARATOR, before, offset)  # the one at `offset` precedes a token
            run = self._token_spans[first : first + length]
            spans.append((min(start for start, _ in run), max(stop for _, stop in run)))
            before, offset = offset, self.joined.find(needle, offset + 1)
        return spans

    @cached_property
    def _token_spans(self) -> list[Span]:
        """The part of `text` that each token came from."""
        decomposed, origin = decompose(self.text)
        return [original_span(origin, *token.span()) for token in _token(self.mode).finditer(decomposed)]


def _token(mode: Mode) -> regex.Pattern[str]:
    return CHARACTER if mode == "characters" else TOKEN


def joined_tokens(text: str, mode: Mode = "string") -> str:
    """Returns the text's tokens, lower-cased, each between two separators; empty without tokens."""
    tokens = _token(mode).findall(unicodedata.normalize("NFD", text))
    if not tokens:
        return ""
    return f"{SEPARATOR}{SEPARATOR.join(tokens)}{SEPARATOR}".lower()


def normalized(text: str) -> str:
    """Returns a text in NFD and lower case; each of its tokens, normalised in the same way, is a substring of it."""
    # Python lower-cases a capital sigma by its context, so every final sigma becomes the form within a word.
    return unicodedata.normalize("NFD", text).lower().replace(FINAL_SIGMA, SIGMA)


def decompose(text: str) -> tuple[str, Sequence[int]]:
    """Returns the text in NFD (Unicode's algorithm), and per code point of it the index in `text` it came from."""
    if unicodedata.is_normalized("NFD", text):
        return text, range(len(text))
    points = [
        (unicodedata.combining(point), point, index)
        for index, character in enumerate(text)
        for point in unicodedata.normalize("NFD", character)
    ]
    runs = groupby(points, key=lambda point: point[0] > 0)
    ordered = [point for marks, run in runs for point in (sorted(run, key=itemgetter(0)) if marks else run)]
    return "".join(point for _, point, _ in ordered), [index for _, _, index in ordered]


def original_span(origin: Sequence[int], start: int, stop: int) -> Span:
    """Returns the span of the original text that decomposed code points [start, stop) came from."""
    indices = origin[start:stop]
    return min(indices), max(indices) + 1
