"""Sentence boundaries, by NLTK's `sent_tokenize` (CAMVR 3.2) or, in Chinese, Japanese and Korean, by punctuation (`cjk`)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from functools import lru_cache, partial
from itertools import islice
from typing import TypeAlias

import pyarrow as pa

from multiview.data.cjk import LANGUAGES, sentence_spans
from multiview.data.tokens import Span
from multiview.errors import InputError

Splitter: TypeAlias = Callable[[str], Iterable[Span]]
"""A function that returns the spans of a text's sentences."""

ENDS = pa.list_(pa.int32())
"""Type of the column `sentence_ends` in shards."""

PIECE_CHARACTERS = 100_000
"""Code points of a long text that are split into sentences at a time."""

# fmt: off
PUNKT = frozenset({
    "czech", "danish", "dutch", "english", "estonian", "finnish", "french", "german", "greek", "italian", "malayalam",
    "norwegian", "polish", "portuguese", "russian", "slovene", "spanish", "swedish", "turkish",
})
# fmt: on
"""Languages for which NLTK publishes sentence data."""


@lru_cache
def splitter(language: str = "english") -> Splitter:
    """Returns what splits texts of a language into sentences. Raises InputError without NLTK's data."""
    if language in LANGUAGES:
        return sentence_spans
    from nltk.tokenize.punkt import PunktTokenizer  # late: NLTK takes seconds to import

    try:
        return PunktTokenizer(language).span_tokenize
    except LookupError:
        fault = (
            "NLTK's sentence data for it are not installed; run: python -m nltk.downloader punkt_tab (in a checkout: "
            f"python images/sentence_data.py {language})"
        )
        if language not in PUNKT:
            fault = (
                f"there is no sentence splitter for it; choose one of {', '.join(sorted(PUNKT | LANGUAGES))}"
            )
    except ValueError as error:
        fault = str(error)
    raise InputError(f"corpus.language={language}: {fault}")


def sentence_ends(text: str, language: str = "english") -> tuple[int, ...]:
    """Returns the end offsets of the text's sentences, in code points; they partition the text, and an empty one has none.

    White space belongs to the sentence before it. Raises InputError when NLTK's data for the language are not installed.
    """
    return next(iterate_sentence_ends([text], language))


def iterate_sentence_ends(texts: Iterable[str], language: str = "english") -> Iterator[tuple[int, ...]]:
    """Yields the `sentence_ends` of many texts, with a splitter that is loaded once."""
    split = splitter(language)
    for text in texts:
        yield (*islice(_sentence_starts(split, text), 1, None), len(text)) if text else ()


def _sentence_starts(split: Splitter, text: str) -> Iterator[int]:
    """Yields where a text's sentences begin. A long text is split in pieces: NLTK gives up after five seconds."""
    begin = 0
    while begin < len(text):
        stop = begin + PIECE_CHARACTERS
        starts = [begin + start for start, _ in split(text[begin:stop])]
        if stop >= len(text):
            yield from starts
            return
        several = len(starts) > 1
        yield from starts[:-1] if several else starts
        begin = starts[-1] if several else stop


def begin_sentence_ends(
    texts: Sequence[str], language: str, pool: Executor | None = None
) -> Callable[[], pa.Array]:
    """Starts splitting texts in `pool`, if any. Returns a function that waits for, or finds, their sentence ends."""
    if pool is None:
        return partial(_ends_of, texts, language)
    return pool.submit(_ends_of, texts, language).result


def _ends_of(texts: Sequence[str], language: str) -> pa.Array:
    return pa.array(list(iterate_sentence_ends(texts, language)), ENDS)
