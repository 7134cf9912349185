"""Finds answers in texts: DPR's `has_answer`, also with the positions of the matches."""

import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
import regex

from multiview.config import Config
from multiview.data import cjk
from multiview.data.tokens import FLAGS, Mode, Needle, Span, TokenizedText, decompose, original_span
from multiview.errors import InputError

Kind = Literal["offset", "one", "several", "none"]
AnswerPatterns: TypeAlias = "Sequence[Needle | regex.Pattern[str]]"
"""The answers of a question, prepared for many texts."""


def matching_mode(settings: Config) -> Mode:
    """Returns `questions.answer_matching`, but `characters` instead of `string` for Chinese, Japanese and Korean."""
    matching = settings.questions.answer_matching
    return "characters" if matching == "string" and settings.corpus.language in cjk.LANGUAGES else matching


class QuestionAnswers:
    """The answers of many questions, each prepared once and then looked for in many texts, as by DPR's `has_answer`.

    - `string`: the answer's tokens are a contiguous run of the text's tokens; an answer without tokens never matches.
    - `characters`: the same, but each Chinese, Japanese or Korean letter is a token, so words need no spaces.
    - `regex`: the answer is a pattern that has a non-empty match in the NFD text.
    """

    def __init__(self, answers: Iterable[Sequence[str]], mode: Mode = "string") -> None:
        """`answers` has the answers of each question. Raises InputError for an invalid pattern."""
        self._mode: Mode = mode
        self._wanted = [_wanted(each, mode) for each in answers]

    def answered(self, texts: pa.Array, in_text: np.ndarray, questions: np.ndarray) -> np.ndarray:
        """Returns, bool [n], whether text `in_text[n]` holds an answer to question `questions[n]`.

        `in_text` are positions in `texts`, ascending, so that each text is tokenised once.
        """
        tokenized = lru_cache(1)(lambda number: TokenizedText(texts[number].as_py(), self._mode))
        pairs = zip(in_text.tolist(), questions.tolist(), strict=True)
        return np.array([_holds(tokenized(number), self._wanted[row]) for number, row in pairs], bool)


def has_answer(text: str | TokenizedText, answers: Sequence[str], mode: Mode = "string") -> bool:
    """Whether the text holds one of the answers; for many texts, use `QuestionAnswers`."""
    return _holds(TokenizedText(text, mode) if isinstance(text, str) else text, _wanted(answers, mode))


def _wanted(answers: Sequence[str], mode: Mode) -> AnswerPatterns:
    if mode == "regex":
        return [_pattern(answer) for answer in answers]
    return [needle for answer in dict.fromkeys(answers) if (needle := Needle.of(answer, mode))]


def _holds(text: TokenizedText, wanted: AnswerPatterns) -> bool:
    for each in wanted:
        if isinstance(each, Needle):
            if text.holds(each):
                return True
        elif any(match.end() > match.start() for match in each.finditer(text.decomposed)):
            return True
    return False


def find_answers(text: str | TokenizedText, answers: Sequence[str], mode: Mode = "string") -> list[Span]:
    """Returns the spans of all matches of all answers, in code points of the original text, sorted by start."""
    tokens = TokenizedText(text, mode) if isinstance(text, str) else text
    if mode == "regex":
        decomposed, origin = decompose(tokens.text)
        matches = (match.span() for answer in answers for match in _pattern(answer).finditer(decomposed))
        return sorted({original_span(origin, *span) for span in matches if span[0] < span[1]})
    return sorted({span for answer in answers for span in tokens.find(answer)})


def check_patterns(answers: Iterable[str]) -> None:
    """Raises InputError for an answer that is not a valid regular expression."""
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
    """Returns the views whose snippet contains the answer (CAMVR 3.2, the i of Eq. 13), and how they were found.

    `spans` are the parts of the text that the views cover, None for title-only and padding views. A match counts only
    if it lies wholly within a span. With `answer_starts`, the views are those of the first answer that lies within a
    span at its offset; without, those of any answer.
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
    return tuple(
        view
        for view, span in enumerate(spans)
        if span is not None and any(span[0] <= start and stop <= span[1] for start, stop in matches)
    )
