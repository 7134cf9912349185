"""The scripts of a corpus, and whether `corpus.language` suits them."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from typing import Final

SAMPLE: Final = 64
"""Texts per table whose letters are counted."""
SHARE: Final = 0.1
"""Smallest share of the letters that is worth a word. Texts about mathematics have far fewer Greek letters."""

_EAST_ASIAN: Final = frozenset({"CJK", "BOPOMOFO", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HALFWIDTH"})
SCRIPTS: Final = {
    "chinese": _EAST_ASIAN,
    "japanese": _EAST_ASIAN,
    "korean": frozenset({"HANGUL", "CJK"}),
    "russian": frozenset({"CYRILLIC"}),
    "greek": frozenset({"GREEK"}),
    "malayalam": frozenset({"MALAYALAM"}),
}
"""Scripts besides Latin in which the languages are written."""


@lru_cache(1 << 16)
def script(letter: str) -> str:
    """Returns the script of a letter, the first word of its name in Unicode; empty for anything else.

    >>> script("東"), script("の"), script("ж"), script("A"), script("1")
    ('CJK', 'HIRAGANA', 'CYRILLIC', 'LATIN', '')
    """
    name = unicodedata.name(letter, "") if letter.isalpha() else ""
    return name.partition(" ")[0] if name else ""


class Scripts:
    """Counts of letters per script, over the first texts of each table."""

    def __init__(self) -> None:
        self._letters: Counter[str] = Counter()

    def add(self, texts: Iterable[str]) -> None:
        """Counts the letters of the first `SAMPLE` texts."""
        for text in islice(texts, SAMPLE):
            self._letters.update(text)

    def problem(self, language: str) -> str | None:
        """Returns a line that says which letters do not suit the language, and what to set; None where they suit it."""
        counts: Counter[str] = Counter()
        for letter, count in self._letters.items():
            counts[script(letter)] += count
        del counts[""]
        foreign = {
            name: count
            for name, count in counts.items()
            if name not in {"LATIN", "FULLWIDTH"} | SCRIPTS.get(language, frozenset())
        }
        if sum(foreign.values()) <= SHARE * counts.total():
            return None
        share = 100 * sum(foreign.values()) / counts.total()
        names = sorted(foreign, key=lambda name: -foreign[name])[:3]
        return (
            f"corpus.language={language}: {share:.0f} % of the letters in the passages are of other scripts "
            f"({', '.join(names)}); {_advice(foreign)}"
        )


def _advice(foreign: dict[str, int]) -> str:
    most = max(foreign, key=lambda name: foreign[name])
    if most in _EAST_ASIAN:
        kana = sum(count for name, count in foreign.items() if name in _EAST_ASIAN - {"CJK", "BOPOMOFO"})
        language: str | None = "japanese" if 20 * kana > foreign.get("CJK", 0) else "chinese"
    else:
        language = next((name for name, scripts in SCRIPTS.items() if most in scripts), None)
    if language is None:
        return (
            "no language with these letters is known here: sentences and answers may not be found, most of all "
            "where words are written without spaces (docs/data.md)"
        )
    return f"set corpus.language={language}, or answers, sentences and BM25's words are not found as they should be"
