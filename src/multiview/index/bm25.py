"""BM25 search over passages, by bm25s."""

import re
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import bm25s
import numpy as np
import pyarrow as pa
import regex
import Stemmer
from bm25s.tokenization import Tokenizer

from multiview.config import Bm25
from multiview.data import cjk
from multiview.data.passages import Passage
from multiview.index.ranking import TieOrder, Ties, TopPassages, best_first, width
from multiview.steps.processors import processors

TOGETHER = 100
"""Questions that a thread takes at a time."""

_WORD = r"\w\w+|(?<!\w['’])[^\W_](?!['’]\w\w)"
ASCII_WORD = re.compile(_WORD)
WORD = regex.compile(_WORD.replace(r"\w", r"[\p{L}\p{M}\p{N}_]").replace(r"[^\W_]", r"[\p{L}\p{N}]"))
"""A word: a run of letters with their marks, digits and _. A single letter or digit is one too (vitamin C, type 2),
unless an apostrophe joins it to a longer word (Newton's, d'Artagnan)."""


def index_of(passages: Iterable[Passage], settings: Bm25, language: str) -> bm25s.BM25 | None:
    """Returns the index of bm25s, by Lucene's formula, over the words (see `tokenizer`) of title and text of `passages`,
    which are read once; None if there are no words."""
    cutter = tokenizer(language)
    # `streaming_tokenize` only iterates over its texts, but is annotated with a list.
    texts: Any = (f"{passage.title} {passage.text}" for passage in passages)
    found = cutter.streaming_tokenize(texts, update_vocab=True, allow_empty=False)
    corpus: Any = SimpleNamespace(ids=[array("I", each) for each in found])
    if not any(corpus.ids):
        return None
    corpus.vocab = cutter.stem_to_sid if cutter.stemmer else cutter.word_to_id
    index = bm25s.BM25(k1=settings.k1, b=settings.b, method="lucene", backend="numpy")
    index.index(corpus, create_empty_token=False, show_progress=False)
    return index


def load_index(folder: Path) -> bm25s.BM25 | None:
    """Returns the index that was saved into `folder`, mapped from there; None if there were no words."""
    if not (folder / "vocab.index.json").is_file():
        return None
    return bm25s.BM25.load(folder, mmap=True, show_progress=False)


class Bm25Index:
    """BM25 index (Lucene's formula) over title and text of passages; the texts themselves are not kept."""

    def __init__(
        self, index: bm25s.BM25 | None, ids: pa.Array, language: str, ties: Ties | None = None
    ) -> None:
        """`index` is what `index_of` gives for passages with `ids` [p] in `language`; `ties` is the ids' order."""
        self.ids, self._language = ids, language
        self._bm25, self._ties = index, TieOrder(ids) if ties is None else ties

    @classmethod
    def of(cls, passages: Iterable[Passage], settings: Bm25, language: str = "english") -> Self:
        """Returns the index, in memory, of the words (see `tokenizer`) of `passages`, which are read once."""
        ids: list[str] = []

        def counted() -> Iterable[Passage]:
            for passage in passages:
                ids.append(passage.id)
                yield passage

        index = index_of(counted(), settings, language)
        return cls(index, pa.array(ids, pa.string()), language)

    def search(
        self,
        questions: Sequence[str],
        k: int,
        report_done: Callable[[int], None] = lambda done: None,
        among: np.ndarray | None = None,
    ) -> TopPassages:
        """Returns the k best passages per question; with `among` [p] bool, only those in it. Ties go to the smaller id.

        Every hit shares a word with the question. (bm25s's selection fills up with zeros and breaks ties by chance.)
        The result is at most as wide as there are passages.
        """
        k = width(k, len(self.ids))
        top = TopPassages.empty(len(questions), k)
        # A new tokenizer for each search, because a tokenizer keeps the words of every question.
        cutter = tokenizer(self._language)
        vocabulary = self._bm25.vocab_dict if self._bm25 else {}
        if cutter.stemmer:
            cutter.stem_to_sid = vocabulary
        else:
            cutter.word_to_id = vocabulary
        streamed = cutter.streaming_tokenize(list(questions), update_vocab=False, allow_empty=False)

        def fill(first: int, batch: Sequence[list[int]]) -> int:
            for question, tokens in enumerate(batch, first):
                if tokens and self._bm25:
                    scores = self._bm25.get_scores_from_ids(tokens)
                    if among is not None:
                        scores[~among] = 0
                    rows = best_rows(scores, self._ties, k)
                    top.put(question, rows, scores[rows], 0)
            return first + len(batch)

        # NumPy lets other threads work while it sums up and selects.
        with ThreadPoolExecutor(processors()) as threads:
            firsts = range(0, len(questions), TOGETHER)
            batches = (list(islice(streamed, TOGETHER)) for _ in firsts)
            for done in threads.map(fill, firsts, batches):
                report_done(done)
        return top


def words(text: str) -> list[str]:
    """Returns the words (see `WORD`) of a lower-cased text, however Unicode composes their letters (NFKC).

    >>> words("são paulo") == words("sa\\u0303o paulo")
    True
    """
    if text.isascii():
        return ASCII_WORD.findall(text)
    # Unicode leaves a dot above the i of İ, and joiners stand within words.
    composed = unicodedata.normalize("NFKC", text).lower().replace("i\N{COMBINING DOT ABOVE}", "i")
    return WORD.findall(composed.replace("\N{ZERO WIDTH JOINER}", ""))


def tokenizer(language: str) -> Tokenizer:
    """Returns a tokenizer into lower-cased `words`.

    Stop words, such as the "a" of "vitamin A", are dropped and words are stemmed if a list and a stemmer for `language`
    exist. Letters of Chinese, Japanese and Korean are taken in pairs, as Lucene's CJKAnalyzer takes them, and the stop
    words are English.
    """
    if language in cjk.LANGUAGES:
        return Tokenizer(splitter=partial(cjk.terms, word=WORD), stopwords="english")
    stemmer = Stemmer.Stemmer(language) if language in Stemmer.algorithms() else None
    try:
        return Tokenizer(splitter=words, stopwords=language, stemmer=stemmer)  # pyright: ignore[reportArgumentType]
    except ValueError:
        return Tokenizer(splitter=words, stopwords=[], stemmer=stemmer)  # pyright: ignore[reportArgumentType]


def best_rows(scores: np.ndarray, tie_order: Ties, k: int) -> np.ndarray:
    """Returns the rows of the k highest positive scores, best first, ties by `tie_order`; fewer when fewer are positive."""
    candidates = np.flatnonzero(scores > 0)
    if k < len(candidates):
        # Most scores are 0: partitioning them all takes 35 times as long on Zen 4.
        positive = scores[candidates]
        candidates = candidates[positive >= np.partition(positive, -k)[-k]]
    return candidates[best_first(scores[candidates], tie_order[candidates])][:k]
