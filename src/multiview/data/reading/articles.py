"""Raw articles: text files with one article each, and long texts cut into passages."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import groupby
from typing import Literal

import pyarrow as pa

from multiview.data.cjk import word_spans
from multiview.data.reading.files import base_name, open_stream
from multiview.data.reading.tables import Row
from multiview.data.sentences import iterate_sentence_ends
from multiview.data.tokens import Span
from multiview.errors import InputError

Cut = Literal["words", "sentences"]

ARTICLE_COLUMNS = ("article_id", "article_start")
"""Columns of the passages of a cut article: the article's id, and the passage's offset in its text (code points)."""

STEM = re.compile(r"(.*)\.txt.*", re.IGNORECASE | re.DOTALL)
"""The name of a text file, plain or compressed: its article's id, and the suffix."""


def text_articles(file: str) -> Iterator[Row]:
    """Yields the one article of a text file; its id and title come from the file name."""
    stem = STEM.sub(r"\1", base_name(file))
    with open_stream(file) as stream:
        try:
            text = stream.read().decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{file}: not UTF-8 ({error.reason}); convert the file") from None
    yield {"id": stem, "title": stem.replace("_", " "), "text": text.replace("\r\n", "\n")}


def cut_articles(table: pa.Table, how: Cut, length: int, language: str) -> pa.Table:
    """Returns a table of passages ID-0, ID-1 …, cut from a table of articles with `id, title, text`.

    Their texts are slices of the article's text that together hold each word once; an article without words stays
    whole. The other columns are copied, and `ARTICLE_COLUMNS` are added.
    """
    texts = table.column("text").to_pylist()
    if how == "sentences":
        ends = iterate_sentence_ends(texts, language)
        cuts = [by_sentences(*each, length, language) for each in zip(texts, ends, strict=True)]
    else:
        cuts = [by_words(text, length, language) for text in texts]
    cuts = [spans or [(0, len(text))] for spans, text in zip(cuts, texts, strict=True)]
    rows = [row for row, spans in enumerate(cuts) for _ in spans]
    flat = [span for spans in cuts for span in spans]
    taken = table.take(pa.array(rows, pa.int64()))
    articles = taken.column("id").to_pylist()
    parts = [part for spans in cuts for part in range(len(spans))]
    pieces = [texts[row][start:stop] for row, (start, stop) in zip(rows, flat, strict=True)]
    replaced = {
        "id": pa.array([f"{id_}-{part}" for id_, part in zip(articles, parts, strict=True)], pa.string()),
        "text": pa.array(pieces, pa.string()),
        ARTICLE_COLUMNS[0]: pa.array(articles, pa.string()),
        ARTICLE_COLUMNS[1]: pa.array([start for start, _ in flat], pa.int32()),
    }
    kept = {name: taken.column(name) for name in taken.column_names if name not in ARTICLE_COLUMNS}
    return pa.table(kept | replaced)


def by_words(text: str, length: int, language: str = "english") -> list[Span]:
    """Returns spans of `length` words; the last span has the remaining words (DPR's passages have 100)."""
    return _runs(word_spans(text, language), length)


def by_sentences(text: str, ends: tuple[int, ...], length: int, language: str = "english") -> list[Span]:
    """Returns spans of as many whole sentences as fit into `length` words; a longer sentence is cut by words."""
    passages: list[Span] = []
    open_words: list[Span] = []  # words of the sentences gathered so far
    # A word that the sentence splitter cuts, such as `??`, belongs to the sentence in which it begins.
    for _, group in groupby(word_spans(text, language), lambda word: bisect_right(ends, word[0])):
        sentence = list(group)
        if len(open_words) + len(sentence) > length:
            passages += _runs(open_words, length)
            open_words = []
        open_words += sentence
    return passages + _runs(open_words, length)


def _runs(words: list[Span], length: int) -> list[Span]:
    runs = [words[first : first + length] for first in range(0, len(words), length)]
    return [(run[0][0], run[-1][1]) for run in runs]
