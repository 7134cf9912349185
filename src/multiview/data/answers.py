"""Search for answers in a text: DPR's `has_answer`, with positions."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
import pyarrow as pa
import regex

from multiview.config import Config
from multiview.data import cjk
from multiview.data.folded import FoldedTexts, alone
from multiview.data.pieces import Pieces
from multiview.data.ranges import rows_in
from multiview.data.tokens import (
    FLAGS,
    Mode,
    Needle,
    Span,
    TokenizedText,
    decompose,
    original_span,
    stands_alone,
)
from multiview.errors import InputError

Kind = Literal["offset", "one", "several", "none"]
TEXTS_AT_ONCE = 500
"""Number of texts that are searched for answers together. Only memory and speed depend on it."""
PAIRS_PER_TEXT = 6
"""Number of answers looked for per text from which on most are ruled out together. Only speed depends on it."""


def matching_mode(settings: Config) -> Mode:
    """Returns how answers are matched: as `questions.answer_matching` says, and by characters where the language needs it."""
    matching = settings.questions.answer_matching
    return "characters" if matching == "string" and settings.corpus.language in cjk.LANGUAGES else matching


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
        self._parts = [needle.part.encode() for needle in self._needles]
        self._phrases = [needle.phrase.encode() for needle in self._needles]
        self._others = [
            () if needle.decides else tuple(token.encode() for token in needle.tokens if token != needle.part)
            for needle in self._needles
        ]
        """The tokens that a text has to have besides the part."""
        self._pieces = Pieces(self._parts)

    def answered(self, texts: pa.Array, in_text: np.ndarray, questions: np.ndarray) -> np.ndarray:
        """Whether each text holds an answer of a question [n] bool.

        `texts` are strings; `in_text` [n] are positions in `texts`, rising, and `questions` [n] rows of questions. Few
        texts are tokenised: most lack a part of every answer, or have it where it stands alone.
        """
        held = np.zeros(len(questions), bool)
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            some = texts.slice(start, TEXTS_AT_ONCE)
            pairs = slice(*np.searchsorted(in_text, (start, start + len(some))))
            held[pairs] = self._answered(some, in_text[pairs] - start, questions[pairs])
        return held

    def _answered(self, texts: pa.Array, in_text: np.ndarray, questions: np.ndarray) -> np.ndarray:
        held = np.zeros(len(questions), bool)
        if self._patterns is not None:
            decomposed = [unicodedata.normalize("NFD", text) for text in texts.to_pylist()]
            for pair, (text, row) in enumerate(zip(in_text.tolist(), questions.tolist(), strict=True)):
                held[pair] = _matches(self._patterns[row], decomposed[text])
            return held
        firsts = self._starts[questions]
        counts = self._starts[questions + 1] - firsts
        pairs = np.repeat(np.arange(len(questions)), counts)
        numbers = rows_in(firsts, counts)
        in_text = in_text[pairs]
        folded = FoldedTexts.of(texts)
        if len(pairs) > PAIRS_PER_TEXT * len(texts):
            possible = self._pieces.may_hold(folded, in_text, numbers)
            pairs, numbers, in_text = pairs[possible], numbers[possible], in_text[possible]
        data, bounds = folded.data, folded.bounds.tolist()
        tokenized: dict[int, TokenizedText] = {}
        answered: list[int] = []
        for pair, text, number in zip(pairs.tolist(), in_text.tolist(), numbers.tolist(), strict=True):
            first, stop = bounds[text], bounds[text + 1]
            if data.find(self._parts[number], first, stop) < 0:
                continue
            holds = self._holds(number, data, first, stop)
            if holds is None:
                if text not in tokenized:
                    tokenized[text] = TokenizedText(texts[text].as_py(), self._mode, folded.text(text))
                holds = tokenized[text].has_tokens(self._needles[number])
            if holds:
                answered.append(pair)
        held[answered] = True
        return held

    def _holds(self, number: int, data: bytes, first: int, stop: int) -> bool | None:
        """Whether a folded text, data[first:stop], which has the part of a needle, has the needle; None where its tokens say."""
        stands = alone(self._phrases[number], data, first, stop) if self._phrases[number] else None
        if stands is False and not self._needles[number].decides:
            stands = None
        if stands is None and any(data.find(token, first, stop) < 0 for token in self._others[number]):
            return False
        return stands

    def within(self, text: TokenizedText, span: Span, question: int) -> bool:
        """Whether a span of a text contains a whole match of an answer of a question (see `find_answers`).

        Most spans have a word of the answer at a clear place, or lack one, so that the text is not tokenised.
        """
        if self._patterns is None and text.in_place:
            needles = self._needles[self._starts[question] : self._starts[question + 1]]
            if any(each.phrase and stands_alone(each.phrase, text.lowered, span) for each in needles):
                return True
            part = text.lowered[slice(*span)]
            if not any(each.longest in part for each in needles):
                return False
        return bool(_containing([span], find_answers(text, self._answers[question], self._mode)))


def _matches(patterns: Sequence[regex.Pattern[str]], text: str) -> bool:
    return any(match.end() > match.start() for pattern in patterns for match in pattern.finditer(text))


def has_answer(text: str | TokenizedText, answers: Sequence[str], mode: Mode = "string") -> bool:
    """Whether the text holds one of the answers (see `QuestionAnswers`, which is for many texts)."""
    tokenized = TokenizedText(text, mode) if isinstance(text, str) else text
    if mode == "regex":
        return _matches([_pattern(answer) for answer in answers], tokenized.decomposed)
    needles = (Needle.of(answer, mode) for answer in answers)
    return any(needle is not None and tokenized.has_tokens(needle) for needle in needles)


def find_answers(text: str | TokenizedText, answers: Sequence[str], mode: Mode = "string") -> list[Span]:
    """Returns the spans of all matches of all answers, in code points of the original text, sorted by start."""
    matches: set[Span] = set()
    if mode == "regex":
        decomposed, origin = decompose(text if isinstance(text, str) else text.text)
        for answer in answers:
            for match in _pattern(answer).finditer(decomposed):
                if match.end() > match.start():
                    matches.add(original_span(origin, *match.span()))
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
