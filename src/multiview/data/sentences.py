"""Sentence boundaries, by NLTK's `sent_tokenize` (CAMVR 3.2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from multiview.data import punkt


def sentence_ends(text: str, language: str = "english") -> tuple[int, ...]:
    """End offsets of the text's sentences, in code points.

    White space up to the next sentence belongs to a sentence, and leading white space to the first:
    the sentences partition the text and the last end is len(text). Empty text has none.
    Raises InputError when NLTK's data for the language are not installed.
    """
    return next(iterate_sentence_ends([text], language))


def iterate_sentence_ends(texts: Iterable[str], language: str = "english") -> Iterator[tuple[int, ...]]:
    """`sentence_ends` of many texts, with one loaded tokenizer."""
    # `sent_tokenize` is this tokenizer's `tokenize`, whose sentences are the text at these spans.
    tokenizer = punkt.tokenizer(language)
    for text in texts:
        starts = [start for start, _ in tokenizer.span_tokenize(text)]
        yield (*starts[1:], len(text)) if text else ()
