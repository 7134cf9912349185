"""Letters, words, sentences and BM25 terms of Chinese, Japanese and Korean, and a check of a corpus's scripts."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

import regex

SPACELESS: Final = frozenset({"chinese", "japanese"})
"""Languages without spaces between words: each letter counts as a word, as word processors count them."""
LANGUAGES: Final = SPACELESS | {"korean"}
"""Languages whose answers are matched by characters, and whose sentences and terms are found by the rules of this module."""

# Unicode assigns the marks that lengthen or voice a kana to no single script.
LETTERS: Final = (
    r"\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Bopomofo}\p{Script=Hangul}ーｰﾞﾟ"
)
LETTER: Final = regex.compile(f"[{LETTERS}]")
RUN: Final = regex.compile(f"[{LETTERS}]+|[^{LETTERS}]+")
WORD: Final = re.compile(r"\S+")
OPENING: Final = r"\p{Ps}\p{Pi}"
SPACELESS_WORD: Final = regex.compile(
    rf"[{OPENING}]*+[{LETTERS}]\p{{M}}*[^\w\s{OPENING}]*"
    rf"|(?:[{OPENING}]++(?![{LETTERS}])|[^\s{LETTERS}{OPENING}])+"
)
"""A letter with its adjacent punctuation, or any other run between spaces and letters, such as a number."""

CLOSING: Final = r"[\p{Pe}\p{Pf}\"'”’]*+"
SENTENCE_END: Final = regex.compile(
    # A run of marks is tried only from its first mark; otherwise a long run would take quadratic time.
    rf"(?:(?<![。！？｡‼⁇⁈⁉])[。！？｡‼⁇⁈⁉]++{CLOSING}"  # these end a sentence anywhere,
    rf"|(?<!\p{{N}})．{CLOSING}"
    rf"|(?<![!?])[!?]++{CLOSING}(?=[{LETTERS}{OPENING}])"  # those of ASCII only before another letter
    rf"|(?<![.!?])[.!?]++{CLOSING}(?=\s))"  # or white space;
    # but not where the sentence goes on after a closing quotation mark: 「行く。」と言った, “好。”，他说
    r"(?<![\p{Pe}\p{Pf}\"'](?=[\p{Hiragana}，、。！？,]))\s*"
)


def sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yields the spans of the text's sentences (`SENTENCE_END`), in code points; white space ends the one before it.

    >>> text = "東京は首都である。人口は約1400万人。"
    >>> [text[start:stop] for start, stop in sentence_spans(text)]
    ['東京は首都である。', '人口は約1400万人。']
    """
    start = 0
    for match in SENTENCE_END.finditer(text):
        if match.end() < len(text):
            yield start, match.end()
            start = match.end()
    if text:
        yield start, len(text)


def word_spans(text: str, language: str) -> list[tuple[int, int]]:
    """Returns the spans of the text's words, in code points; every non-space character is in exactly one word.

    Words are runs between spaces or, in Chinese and Japanese, matches of `SPACELESS_WORD`.
    """
    pattern = SPACELESS_WORD if language in SPACELESS else WORD
    return [match.span() for match in pattern.finditer(text)]


def count_words(text: str, language: str) -> int:
    """Returns the number of the text's words (see `word_spans`)."""
    return sum(1 for _ in SPACELESS_WORD.finditer(text)) if language in SPACELESS else len(text.split())


def bigrams(text: str) -> list[str]:
    """Returns the pairs of adjacent letters of a run of Chinese, Japanese or Korean letters, or its one letter."""
    return [text[first : first + 2] for first in range(len(text) - 1)] or [text]


def terms(text: str, word: regex.Pattern[str]) -> list[str]:
    """Returns the terms of a text, in NFKC and lower case, as Lucene's CJKAnalyzer does.

    They are bigrams of Chinese, Japanese and Korean letters, and the matches of `word` elsewhere.

    >>> terms("東京都 A1", regex.compile(r"\\w+"))
    ['東京', '京都', 'a1']
    """
    found: list[str] = []
    for run in RUN.findall(unicodedata.normalize("NFKC", text).lower()):
        found += bigrams(run) if LETTER.match(run) else word.findall(run)
    return found


SAMPLE: Final = 64
"""Texts per table whose letters are counted."""
SHARE: Final = 0.1
"""Share of foreign letters above which there is a warning. Greek letters in mathematical texts stay far below it."""

_EAST_ASIAN: Final = frozenset({"CJK", "BOPOMOFO", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HALFWIDTH"})
SCRIPTS: Final = {
    "chinese": _EAST_ASIAN,
    "japanese": _EAST_ASIAN,
    "korean": frozenset({"HANGUL", "CJK"}),
    "russian": frozenset({"CYRILLIC"}),
    "greek": frozenset({"GREEK"}),
    "malayalam": frozenset({"MALAYALAM"}),
}
"""Language to the scripts, besides Latin, that it is written in."""


class Scripts:
    """Counts of letters per script, over the first texts of each table."""

    def __init__(self) -> None:
        self._letters: Counter[str] = Counter()

    def add(self, texts: Iterable[str]) -> None:
        """Counts the letters of the first `SAMPLE` texts."""
        for text in islice(texts, SAMPLE):
            self._letters.update(text)

    def problem(self, language: str) -> str | None:
        """Returns a line about letters that do not suit the language, and what to set instead; None if they suit it."""
        counts: Counter[str] = Counter()
        for letter, count in self._letters.items():
            if letter.isalpha():  # a letter's Unicode name begins with its script
                counts[unicodedata.name(letter, "").partition(" ")[0]] += count
        del counts[""]
        suited = {"LATIN", "FULLWIDTH"} | SCRIPTS.get(language, frozenset())
        foreign = Counter({name: count for name, count in counts.items() if name not in suited})
        if foreign.total() <= SHARE * counts.total():
            return None
        share = foreign.total() / counts.total()
        return (
            f"corpus.language={language}: {share:.0%} of the letters in the passages are of other scripts "
            f"({', '.join(name for name, _ in foreign.most_common(3))}); "
            f"{_advice(foreign) if share > 0.5 else 'their sentences and answers may not be found'}"
        )


def _advice(foreign: Counter[str]) -> str:
    most, _ = foreign.most_common(1)[0]
    language = next((name for name, scripts in SCRIPTS.items() if most in scripts), None)
    if most in _EAST_ASIAN:
        kana = sum(foreign[name] for name in _EAST_ASIAN - {"CJK", "BOPOMOFO"})
        language = "japanese" if 20 * kana > foreign["CJK"] else "chinese"
    if language is None:
        return (
            "no language with these letters is known here: sentences and answers may not be found, most of all "
            "where words are written without spaces (docs/data.md)"
        )
    return f"set corpus.language={language}, or answers, sentences and BM25's words are not found as they should be"
