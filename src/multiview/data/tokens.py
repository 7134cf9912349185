"""Texts as DPR's `has_answer` reads them: tokens after NFD, lower-cased, and the parts of the text that they came from."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice, pairwise
from typing import Literal, NamedTuple

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
BLANKS = regex.compile(r"[\p{Z}\p{C}]+")
"""What stands between tokens."""
WORD = regex.compile(r"[\p{L}\p{N}\p{M}]")
SIGMA, FINAL_SIGMA = "\u03c3", "\u03c2"


class Needle(NamedTuple):
    """An answer to look for in many texts."""

    joined: str
    """Its tokens between separators (see `joined_tokens`)."""
    tokens: tuple[str, ...]
    """Its tokens, folded (see `fold`)."""
    longest: str
    """The longest of `tokens`."""
    phrase: str
    """The answer, folded: a text where it stands alone has its tokens. Empty where this does not follow."""
    decides: bool
    """Whether a text where `phrase` does not stand alone lacks the tokens."""

    @classmethod
    def of(cls, answer: str, mode: Mode = "string") -> Needle | None:
        """Returns the needle of an answer; None for an answer without tokens."""
        if not (joined := joined_tokens(answer, mode)):
            return None
        phrase = fold(answer).strip()
        # Python lower-cases a sigma by the letters around it, and a letter of Chinese is a token with all that joins it.
        if SIGMA in phrase or not (mode == "string" or answer.isascii()):
            phrase = ""
        tokens = tuple((joined if joined.isascii() else fold(joined)).split())
        words = all(map(WORD.match, tokens))  # between which a text has blanks alone
        return cls(joined, tokens, max(tokens, key=len), phrase, bool(phrase) and words and mode == "string")

    @property
    def part(self) -> str:
        """The longest string that a folded text with the answer's tokens has for certain."""
        return self.phrase if self.decides else self.longest


class TokenizedText:
    """A text that is tokenised once, when it is first needed, and searched for many answers.

    Tokens are DPR's: after NFD, runs of letters, digits and marks, or single other characters, lower-cased. In the mode
    `characters` each letter of Chinese, Japanese and Korean is a token. They are joined into one string with
    separators, so that a contiguous run of tokens is a substring.
    """

    def __init__(self, text: str, mode: Mode = "string", folded: str | None = None) -> None:
        """`folded` is the folded text, where it is known."""
        self.text = text
        self.mode: Mode = mode
        if folded is not None:
            self.folded = folded

    @cached_property
    def joined(self) -> str:
        """The text's tokens between separators (see `joined_tokens`)."""
        return joined_tokens(self.text, self.mode)

    @cached_property
    def decomposed(self) -> str:
        """The text in NFD."""
        return unicodedata.normalize("NFD", self.text)

    @cached_property
    def lowered(self) -> str:
        """The text in NFD, lower-cased, a sigma as it is within words."""
        return _lower(self.text if self.text.isascii() else self.decomposed)

    @cached_property
    def folded(self) -> str:
        """The text folded (see `fold`)."""
        return fold(self.text)

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
        """Whether the text has the needle's tokens, without tokenising it where its folded form says so."""
        if needle.part not in self.folded:
            return False
        if needle.phrase and stands_alone(needle.phrase, self.folded):
            return True
        if needle.decides:
            return False
        return all(token in self.folded for token in needle.tokens) and needle.joined in self.joined

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


def is_within_token(text: str, place: int, mode: Mode = "string") -> bool:
    """Whether the code points before and after a place in a text belong to one token.

    >>> [place for place in range(7) if is_within_token("In 1995", place)]
    [1, 4, 5, 6]
    """
    return 0 < place < len(text) and bool(_token(mode).fullmatch(text, place - 1, place + 1))


def fold(text: str) -> str:
    r"""Returns a text in NFD and lower-cased, each run of separators and control characters as one space.

    A sigma is that of the middle of a word everywhere, so a run of other characters than ASCII is folded the same
    wherever it stands.

    >>> fold("Caf\u00e9\tBlue")
    'cafe\u0301 blue'
    """
    if not text.isascii():
        text = unicodedata.normalize("NFD", text)
    if not text.isprintable() or "  " in text:
        text = BLANKS.sub(SEPARATOR, text)
    return _lower(text)


def _lower(text: str) -> str:
    return text.lower() if text.isascii() else text.lower().replace(FINAL_SIGMA, SIGMA)


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


def stands_alone(phrase: str, text: str, span: tuple[int, int | None] = (0, None)) -> bool:
    """Whether a phrase occurs in a lower-cased text, within a span of it, and no word goes on beyond its ends."""
    first, last = span
    begins, ends = _is_word(phrase[:1]), _is_word(phrase[-1:])
    start = text.find(phrase, first, last)
    while start >= 0:
        stop = start + len(phrase)
        goes_on = (begins and _is_word(text[start - 1 : start])) or (ends and _is_word(text[stop : stop + 1]))
        if not goes_on:
            return True
        start = text.find(phrase, start + 1, last)
    return False


def _is_word(character: str) -> bool:
    """Whether a character belongs to a word; False for an empty string."""
    return character.isalnum() if character.isascii() else bool(WORD.match(character))
