"""NLTK's sentence splitter, made fast. It takes seconds to import."""

from __future__ import annotations

from functools import lru_cache
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

    __slots__ = ()

    re_boundary_realignment = _untimed(PunktLanguageVars.re_boundary_realignment)

    def __init__(self) -> None:
        self._re_word_tokenizer = _untimed(self._word_tokenizer_re())
        self._re_period_context = _untimed(self.period_context_re())


class FastTokenizer(PunktTokenizer):
    """NLTK's tokenizer for a language in half of its time; the spans are the same."""

    def __init__(self, language: str) -> None:
        super().__init__(language)
        self._Token, self._lang_vars = RememberedToken, UntimedVars()
