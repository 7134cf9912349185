"""Search for answers in a text: DPR's `has_answer`, with positions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice, pairwise
from typing import Literal

import numpy as np
import regex

from multiview.config import Config
from multiview.data import cjk
from multiview.data.pieces import Pieces
from multiview.errors import InputError

Mode = Literal["string", "characters", "regex"]
Kind = Literal["offset", "one", "several", "none"]
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
TEXTS_AT_ONCE = 500
"""Number of texts that are searched for answers together. Memory and speed depend on it."""
PAIRS_PER_TEXT = 6
"""Number of answers looked for per text from which on most are ruled out together. Only speed depends on it."""
NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
SEPARATOR = " "  # in the class Z, so no token holds it
ASCII_WORD = re.compile(r"[a-z0-9]")
SIGMAS = frozenset("Σσς")


def matching_mode(settings: Config) -> Mode:
    """Returns how answers are matched: as `questions.answer_matching` says, and by characters where the language needs it."""
    matching = settings.questions.answer_matching
    return "characters" if matching == "string" and settings.corpus.language in cjk.LANGUAGES else matching


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
        if needle.phrase and _stands_alone(needle.phrase, self.lowered, clearly=True):
            return True
        if not _stands_alone(needle.longest, self.lowered):
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
        return [_original(origin, *token.span()) for token in _token(self.mode).finditer(decomposed)]


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


def _original(origin: Sequence[int], start: int, stop: int) -> Span:
    """Returns the span of the original text that decomposed code points [start, stop) came from."""
    indices = origin[start:stop]
    return min(indices), max(indices) + 1


class QuestionAnswers:
    """The answers of many questions, each prepared once, for DPR's `has_answer` of many texts.

    - `string`: the answer's tokens are a contiguous run of the text's tokens; an answer without tokens never matches.
    - `characters`: the same, with each letter of Chinese, Japanese and Korean as a token, so that words need no spaces.
      The texts have to be tokenised in this mode.
    - `regex`: the answer is a pattern that matches a part of the NFD text, not the empty string.
    """

    def __init__(self, answers: Iterable[Sequence[str]], mode: Mode = "string") -> None:
        """`answers` has the answers of each question. Raises InputError for an invalid pattern."""
        answers = self._answers = list(answers)
        self._mode: Mode = mode
        self._patterns: list[list[regex.Pattern[str]]] | None = None
        self._needles: list[Needle] = []
        """The needles of all questions, one question after another."""
        self._starts = np.zeros(1, np.int64)
        """Where each question's needles begin [questions + 1]."""
        if mode == "regex":
            self._patterns = [[_pattern(answer) for answer in each] for each in answers]
            return
        needles = [[Needle.of(answer, mode) for answer in dict.fromkeys(each)] for each in answers]
        self._needles = [needle for each in needles for needle in each if needle]
        counts = [sum(needle is not None for needle in each) for each in needles]
        self._starts = np.cumsum([0, *counts])
        self._pieces = Pieces([needle.longest for needle in self._needles])

    def answered(
        self, texts: Sequence[TokenizedText], in_text: np.ndarray, questions: np.ndarray
    ) -> np.ndarray:
        """Whether each text holds an answer of a question, for pairs of a position in `texts` and a question's row [n].

        Most texts lack the longest token of every answer, and are never tokenised.
        """
        held = np.zeros(len(questions), bool)
        if self._patterns is not None:
            for pair, (text, row) in enumerate(zip(in_text.tolist(), questions.tolist(), strict=True)):
                held[pair] = _matches(self._patterns[row], texts[text].decomposed)
            return held
        firsts = self._starts[questions]
        counts = self._starts[questions + 1] - firsts
        pairs = np.repeat(np.arange(len(questions)), counts)
        numbers = np.arange(len(pairs)) + np.repeat(firsts - (np.cumsum(counts) - counts), counts)
        in_text = in_text[pairs]
        if len(pairs) > PAIRS_PER_TEXT * len(texts):
            possible = self._pieces.may_hold([text.lowered for text in texts], in_text, numbers)
            pairs, numbers, in_text = pairs[possible], numbers[possible], in_text[possible]
        for pair, text, number in zip(pairs.tolist(), in_text.tolist(), numbers.tolist(), strict=True):
            needle = self._needles[number]
            if needle.longest in texts[text].lowered and texts[text].has_tokens(needle):
                held[pair] = True
        return held

    def within(self, text: TokenizedText, span: Span, question: int) -> bool:
        """Whether a span of a text contains a whole match of an answer of a question (see `find_answers`).

        Most spans have a word of the answer at a clear place, or lack one, so that the text is not tokenised.
        """
        if self._patterns is None and text.in_place:
            needles = self._needles[self._starts[question] : self._starts[question + 1]]
            if any(each.phrase and _stands_alone(each.phrase, text.lowered, True, span) for each in needles):
                return True
            part = text.lowered[slice(*span)]
            if not any(each.longest in part for each in needles):
                return False
        return bool(_containing([span], find_answers(text, self._answers[question], self._mode)))


def _matches(patterns: Sequence[regex.Pattern[str]], text: str) -> bool:
    return any(match.end() > match.start() for pattern in patterns for match in pattern.finditer(text))


def _stands_alone(
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


def has_answer(text: str | TokenizedText, answers: Sequence[str], mode: Mode = "string") -> bool:
    """Whether the text holds one of the answers (see `QuestionAnswers`, which is for many texts)."""
    tokenized = TokenizedText(text, mode) if isinstance(text, str) else text
    one = np.zeros(1, np.int64)
    return bool(QuestionAnswers([answers], mode).answered([tokenized], one, one)[0])


def find_answers(text: str | TokenizedText, answers: Sequence[str], mode: Mode = "string") -> list[Span]:
    """Returns the spans of all matches of all answers, in code points of the original text, sorted by start."""
    matches: set[Span] = set()
    if mode == "regex":
        decomposed, origin = decompose(text if isinstance(text, str) else text.text)
        for answer in answers:
            for match in _pattern(answer).finditer(decomposed):
                if match.end() > match.start():
                    matches.add(_original(origin, *match.span()))
    else:
        tokens = TokenizedText(text, mode) if isinstance(text, str) else text
        for answer in answers:
            matches.update(tokens.find(answer))
    return sorted(matches)


def check_patterns(answers: Iterable[str]) -> None:
    """Raises InputError for an answer that is no regular expression."""
    for answer in answers:
        _pattern(answer)


@lru_cache(maxsize=4096)
def _pattern(answer: str) -> regex.Pattern[str]:
    try:
        return regex.compile(unicodedata.normalize("NFD", answer), FLAGS)
    except (regex.error, RecursionError, OverflowError, ValueError) as error:
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
    """Returns the views with the answer in their snippet (CAMVR 3.2, the i of Eq. 13), and how they were found.

    `spans` are the parts of the text that the views cover. A view without a span (title only, padding) holds no answer.
    A span holds an answer only if it contains the whole match.

    - With offsets: the views that contain the first answer at its offset. Where this answer crosses spans, the next
      answer within one span counts. The kind is `offset` or `none`.
    - Without offsets: all views that contain a whole match of any answer. The kind is `one`, `several` or `none`.
    """
    if answer_starts is not None:
        for answer, start in zip(answers, answer_starts, strict=True):
            if views := _containing(spans, [(start, start + len(answer))]):
                return views, "offset"
        return (), "none"
    views = _containing(spans, find_answers(text, answers, mode))
    return views, "none" if not views else "one" if len(views) == 1 else "several"


def _containing(spans: Sequence[Span | None], matches: Sequence[Span]) -> tuple[int, ...]:
    """Returns the indices of the spans that contain at least one whole match."""
    views = []
    for view, span in enumerate(spans):
        if span is None:
            continue
        first, last = span
        for start, stop in matches:
            if first <= start and stop <= last:
                views.append(view)
                break
    return tuple(views)
