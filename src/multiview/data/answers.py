"""Where answers stand in a text: DPR's `has_answer`, with positions."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Literal

import regex

from multiview.errors import InputError

Mode = Literal["string", "regex"]
Kind = Literal["offset", "one", "several", "none"]
Span = tuple[int, int]

FLAGS = regex.IGNORECASE | regex.UNICODE | regex.MULTILINE
TOKEN = regex.compile(r"[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]", FLAGS)
SEPARATOR = " "  # of the class Z: no token holds one


class TokenizedText:
    """A text cut into tokens once, to be searched for many answers.

    Tokens are DPR's: NFD, runs of letters, digits and marks or single other signs, lower-cased.
    They are kept as one string between separators, so that a contiguous run of tokens is a
    substring.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.joined = joined_tokens(text)

    def has(self, answer: str) -> bool:
        """Whether the answer's tokens occur as a contiguous run."""
        needle = joined_tokens(answer)
        return bool(needle) and needle in self.joined

    def find(self, answer: str) -> list[Span]:
        """Spans, in code points of the original text, of all occurrences of the answer's tokens."""
        needle = joined_tokens(answer)
        if not needle or needle not in self.joined:
            return []
        starts, spans = self._places
        length = needle.count(SEPARATOR) - 1
        found: list[Span] = []
        at = self.joined.find(needle)
        while at >= 0:
            first = bisect_right(starts, at) - 1
            run = spans[first : first + length]
            found.append((min(start for start, _ in run), max(stop for _, stop in run)))
            at = self.joined.find(needle, at + 1)
        return found

    @cached_property
    def _places(self) -> tuple[list[int], list[Span]]:
        """Of each token, the offset of its separator in `joined` and its span in `text`."""
        decomposed, origin = decompose(self.text)
        spans = [_original(origin, *match.span()) for match in TOKEN.finditer(decomposed)]
        tokens = self.joined.split(SEPARATOR)[1:-1]
        return list(accumulate((len(token) + 1 for token in tokens[:-1]), initial=0)), spans


def joined_tokens(text: str) -> str:
    """The text's tokens, lower-cased, each between two separators; empty without tokens."""
    tokens = TOKEN.findall(unicodedata.normalize("NFD", text))
    if not tokens:
        return ""
    return f"{SEPARATOR}{SEPARATOR.join(tokens)}{SEPARATOR}".lower()


def decompose(text: str) -> tuple[str, Sequence[int]]:
    """The text in NFD, and for each of its code points the index in `text` that it came from.

    Follows the standard: decompose each code point, then sort each run of combining marks, stably,
    by combining class.
    """
    if unicodedata.is_normalized("NFD", text):
        return text, range(len(text))
    pieces: list[tuple[int, str, int]] = []  # combining class, code point, origin
    run = 0  # where the present run of marks begins
    for index, character in enumerate(text):
        for point in unicodedata.normalize("NFD", character):
            rank = unicodedata.combining(point)
            if rank == 0:
                pieces[run:] = sorted(pieces[run:], key=_rank)
                run = len(pieces) + 1
            pieces.append((rank, point, index))
    pieces[run:] = sorted(pieces[run:], key=_rank)
    return "".join(point for _, point, _ in pieces), [index for _, _, index in pieces]


def _rank(piece: tuple[int, str, int]) -> int:
    return piece[0]


def _original(origin: Sequence[int], start: int, stop: int) -> Span:
    """The span of the original text that decomposed code points [start, stop) came from."""
    indices = origin[start:stop]
    return min(indices), max(indices) + 1


def has_answer(text: str | TokenizedText, answers: Sequence[str], mode: Mode = "string") -> bool:
    """Whether the text holds one of the answers (DPR's `has_answer`).

    `string`: the answer's tokens are a contiguous run of the text's; an answer without tokens never
    matches. `regex`: the answer, as a pattern, matches something of the NFD text.
    Raises InputError for a pattern that is not valid.
    """
    if mode == "regex":
        decomposed = unicodedata.normalize("NFD", text if isinstance(text, str) else text.text)
        return any(
            match.end() > match.start()
            for answer in answers
            for match in _pattern(answer).finditer(decomposed)
        )
    tokens = TokenizedText(text) if isinstance(text, str) else text
    return any(tokens.has(answer) for answer in answers)


def find_answers(text: str | TokenizedText, answers: Sequence[str], mode: Mode = "string") -> list[Span]:
    """Spans of all matches of all answers, in code points of the original text, in order of start."""
    found: set[Span] = set()
    if mode == "regex":
        decomposed, origin = decompose(text if isinstance(text, str) else text.text)
        for answer in answers:
            for match in _pattern(answer).finditer(decomposed):
                if match.end() > match.start():
                    found.add(_original(origin, *match.span()))
    else:
        tokens = TokenizedText(text) if isinstance(text, str) else text
        for answer in answers:
            found.update(tokens.find(answer))
    return sorted(found)


@lru_cache(maxsize=4096)
def _pattern(answer: str) -> regex.Pattern[str]:
    try:
        return regex.compile(unicodedata.normalize("NFD", answer), FLAGS)
    except regex.error as error:
        raise InputError(
            f"answer {answer!r} is not a valid pattern ({error}); "
            "mend it or set questions.answer_matching=string"
        ) from None


def answer_views(
    spans: Sequence[Span | None],
    text: str | TokenizedText,
    answers: Sequence[str],
    answer_starts: Sequence[int] | None = None,
    mode: Mode = "string",
) -> tuple[tuple[int, ...], Kind]:
    """The views whose snippet holds the answer (CAMVR 3.3, the i of Eq. 13), and how they were found.

    `spans` are the views' parts of the text; a view with none (the title alone, padding) holds
    nothing. A span holds an answer only if it contains the whole match.

    - With offsets: the views that contain the first answer at its offset, or, where it lies across
      spans, the next answer that lies within one; kind `offset`, or `none`.
    - Without: every view that contains a whole match of any answer; kind `one`, `several` or `none`.
    """
    if answer_starts is not None:
        for answer, start in zip(answers, answer_starts, strict=True):
            if views := _containing(spans, [(start, start + len(answer))]):
                return views, "offset"
        return (), "none"
    views = _containing(spans, find_answers(text, answers, mode))
    return views, "none" if not views else "one" if len(views) == 1 else "several"


def _containing(spans: Sequence[Span | None], matches: Sequence[Span]) -> tuple[int, ...]:
    """Indices of the spans that contain at least one whole match."""
    return tuple(
        view
        for view, span in enumerate(spans)
        if span is not None and any(span[0] <= start and stop <= span[1] for start, stop in matches)
    )
