"""NLTK's sentence splitter, made fast. It takes seconds to import."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain, pairwise
from string import whitespace
from typing import Any

from nltk import redos
from nltk.tokenize.punkt import PunktLanguageVars, PunktToken, PunktTokenizer

WORDS = 1 << 14
"""Words whose properties are remembered."""


@lru_cache(WORDS)
def _properties(word: str) -> tuple[str, bool, bool, bool]:
    """Returns a word's type, and whether it ends with a period, is an ellipsis and is an initial, as NLTK finds."""
    token = PunktToken(word)
    return token.type, token.period_final, bool(token.is_ellipsis), bool(token.is_initial)


class RememberedToken(PunktToken):
    """NLTK's token, whose properties are found out once per word: by four regular expressions, much of NLTK's work."""

    __slots__ = ("is_ellipsis", "is_initial")

    def __init__(self, tok: str, parastart: bool | None = None, linestart: bool | None = None) -> None:
        self.tok, self.parastart, self.linestart = tok, parastart, linestart
        self.type, self.period_final, ellipsis, initial = _properties(tok)
        # Properties of NLTK's token, which are slots here.
        self.is_ellipsis = ellipsis  # pyright: ignore[reportAttributeAccessIssue, reportIncompatibleMethodOverride]
        self.is_initial = initial  # pyright: ignore[reportAttributeAccessIssue, reportIncompatibleMethodOverride]
        self.sentbreak = self.abbr = self.ellipsis = None


def _untimed(pattern: Any) -> Any:  # NLTK does not annotate its patterns
    """Returns NLTK's pattern without its limit of five seconds per match, whose clock costs more than the match."""
    return redos.compile(pattern, timeout=None)


class UntimedVars(PunktLanguageVars):
    """NLTK's patterns without their clock: each takes time in proportion to the text."""

    __slots__ = ("ascii_context",)

    re_boundary_realignment = _untimed(PunktLanguageVars.re_boundary_realignment)

    def __init__(self) -> None:
        self._re_word_tokenizer = _untimed(self._word_tokenizer_re())
        context = self.period_context_re()
        self._re_period_context = _untimed(context)
        self.ascii_context = re.compile(context.pattern, re.VERBOSE | re.ASCII)
        """The pattern of contexts for texts of ASCII alone, for Python's own matcher, which is faster."""


class FastTokenizer(PunktTokenizer):
    """NLTK's tokenizer for a language in a quarter of its time; the spans are the same."""

    def __init__(self, language: str) -> None:
        super().__init__(language)
        self._Token, self._lang_vars = RememberedToken, UntimedVars()
        self._followed = {"##number##", *(word for word, _ in self._params.collocations)}
        self._ends_with = lru_cache(WORDS)(self._ends_whatever_follows)

    def _slices_from_text(self, text: str) -> Iterator[slice]:
        """Yields NLTK's slices. A candidate's context is a part of the text: the word before it up to the token after it."""
        pattern = self._lang_vars.ascii_context if text.isascii() else self._lang_vars.period_context_re()
        others = [space for space in whitespace if space != " " and space in text]
        last_break = word = word_end = 0
        candidate = None
        for match in chain(pattern.finditer(text), [None]):
            begin = word_end
            if match:
                space = text.rfind(" ", word_end, match.start())
                for other in others:
                    space = max(space, text.rfind(other, word_end, match.start()))
                begin = space + 1 if space > word_end else word
            # Candidates in one word, as in `!?`, are one: the last.
            if candidate and word_end <= begin:
                after = candidate.end("after_tok")
                if self.text_contains_sentbreak(text[word:after]):
                    yield slice(last_break, candidate.end())
                    last_break = max(candidate.end(), candidate.start("next_tok"))
            if match:
                candidate, word, word_end = match, begin, match.start()
        yield slice(last_break, len(text.rstrip()))

    def text_contains_sentbreak(self, text: str) -> bool:
        """Whether a sentence ends between two words of a context. Most contexts begin with a word and a period."""
        first, space, _ = text.partition(" ")
        if space and first[:-1].isalnum() and first[-1] == "." and self._ends_with(first):
            return True
        tokenize = self._lang_vars.word_tokenize
        words = [word for line in text.split("\n") if line.strip() for word in tokenize(line)]
        return any(
            self._ends_with(word) or self._ends_between(word, following)
            for word, following in pairwise(words)
            if word[-1] in ".?!"
        )

    def _ends_whatever_follows(self, word: str) -> bool:
        """Whether a sentence ends after a word in any case: NLTK's second pass looks at what follows abbreviations,
        ellipses, initials, numbers and collocations."""
        token = RememberedToken(word)
        self._first_pass_annotation(token)
        kind = token.type_no_period
        return bool(token.sentbreak and not token.is_initial) and kind not in self._followed

    def _ends_between(self, word: str, following: str) -> bool:
        """Whether a sentence ends between two words, as NLTK's two passes decide."""
        first, second = RememberedToken(word), RememberedToken(following)
        self._first_pass_annotation(first)
        self._first_pass_annotation(second)
        self._second_pass_annotation(first, second)
        return bool(first.sentbreak)

    def _realign_boundaries(self, text: str, slices: Iterable[slice]) -> Iterator[slice]:
        """Yields NLTK's slices, with what closes a sentence at its end. No letter or digit closes one."""
        moved = 0
        for sentence, following in pairwise(chain(slices, [None])):
            assert sentence is not None
            begin, closing = sentence.start + moved, None
            if following and not text[following.start : following.start + 1].isalnum():
                closing = self._lang_vars.re_boundary_realignment.match(text[following])
            if following and closing:
                yield slice(begin, following.start + len(closing.group().rstrip()))
            elif text[begin : sentence.stop]:
                yield slice(begin, sentence.stop)
            moved = closing.end() if closing else 0
