"""Raw articles: texts in files of their own, and long texts cut into passages."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Literal

import pyarrow as pa

from multiview.data.reading.files import base_name, opened
from multiview.data.sentences import iterate_sentence_ends
from multiview.errors import InputError

Cut = Literal["words", "sentences"]
Span = tuple[int, int]

ARTICLE_COLUMNS = ("article_id", "article_start")
"""What the passages of a cut article carry: the article, and where in its text they begin (code points)."""

WORD = re.compile(r"\S+")


def text_articles(file: str) -> Iterator[dict[str, Any]]:
    """The one article of a text file; its id and title come from the file's name."""
    stem = base_name(file)
    stem = stem[: stem.lower().rindex(".txt")] if ".txt" in stem.lower() else stem
    with opened(file) as stream:
        try:
            text = stream.read().decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{file}: not UTF-8 ({error.reason}); convert the file") from None
    yield {"id": stem, "title": stem.replace("_", " "), "text": text.replace("\r\n", "\n")}


def cut_articles(table: pa.Table, how: Cut, length: int, language: str) -> pa.Table:
    """A table of passages for a table of articles with `id, title, text`.

    The passages of article ID are ID-0, ID-1 …; their texts are slices of the article's and hold each
    of its words once. The other columns are those of the article, and `ARTICLE_COLUMNS` are added. An
    article without words stays as it is.
    """
    texts = table.column("text").to_pylist()
    if how == "sentences":
        ends = iterate_sentence_ends(texts, language)
        spans = [by_sentences(text, found, length) for text, found in zip(texts, ends, strict=True)]
    else:
        spans = [by_words(text, length) for text in texts]
    spans = [found or [(0, len(text))] for found, text in zip(spans, texts, strict=True)]
    rows = [row for row, found in enumerate(spans) for _ in found]
    taken = table.take(pa.array(rows, pa.int64()))
    articles = taken.column("id").to_pylist()
    numbers = [number for found in spans for number in range(len(found))]
    flat = [span for found in spans for span in found]
    ours = {
        "id": [f"{id_}-{number}" for id_, number in zip(articles, numbers, strict=True)],
        "text": [texts[row][start:stop] for row, (start, stop) in zip(rows, flat, strict=True)],
    }
    for name, values in ours.items():
        place = taken.column_names.index(name)
        taken = taken.set_column(place, name, pa.array(values, pa.string()))
    starts = pa.array([start for start, _ in flat], pa.int32())
    for name, column in zip(ARTICLE_COLUMNS, (pa.array(articles, pa.string()), starts), strict=True):
        taken = (taken.drop_columns(name) if name in taken.column_names else taken).append_column(
            name, column
        )
    return taken


def by_words(text: str, length: int) -> list[Span]:
    """Runs of `length` words, the last with what is left (DPR's passages have 100)."""
    return _runs([match.span() for match in WORD.finditer(text)], length)


def by_sentences(text: str, ends: tuple[int, ...], length: int) -> list[Span]:
    """As many whole sentences as have `length` words at most; a longer sentence is cut by words.

    A word that the splitter cut, as it does `??`, belongs to the sentence in which it begins.
    """
    passages: list[Span] = []
    open_words: list[Span] = []  # of the sentences gathered so far
    words = (match.span() for match in WORD.finditer(text))
    for _, group in groupby(words, lambda word: bisect_right(ends, word[0])):
        sentence = list(group)
        if len(open_words) + len(sentence) > length:
            passages += _runs(open_words, length)
            open_words = []
        open_words += sentence
    return passages + _runs(open_words, length)


def _runs(words: list[Span], length: int) -> list[Span]:
    runs = [words[first : first + length] for first in range(0, len(words), length)]
    return [(run[0][0], run[-1][1]) for run in runs]
