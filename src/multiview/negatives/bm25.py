"""BM25 search over the passages, and hard negatives from its hits (ours, after DPR's maintainers)."""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bm25s
import numpy as np
import pyarrow as pa
import regex
import Stemmer
from bm25s.tokenization import Tokenizer

from multiview.config import Bm25
from multiview.data import cjk
from multiview.data.answers import matching_mode
from multiview.data.passages import Passage, PassageLookup, equal_texts, read_passages
from multiview.data.questions import Question, positive_ids, read_questions
from multiview.errors import counted
from multiview.index.ranking import TopPassages, best_first, tie_order, width
from multiview.negatives.filters import AnswerHits, Positives, filter_hits
from multiview.negatives.negatives_file import BM25, given_table, negatives_table, write_negatives
from multiview.steps.context import StepContext
from multiview.steps.processors import processors

TOGETHER = 100
"""Questions that a thread searches for before it takes others."""

_WORD = r"\w\w+|(?<!\w['’])[^\W_](?!['’]\w\w)"
ASCII_WORD = re.compile(_WORD)
WORD = regex.compile(_WORD.replace(r"\w", r"[\p{L}\p{M}\p{N}_]").replace(r"[^\W_]", r"[\p{L}\p{N}]"))
"""A word: a run of letters with their marks, digits and _. A single letter or digit is one too (vitamin C, type 2),
unless an apostrophe joins it to a longer word (Newton's, d'Artagnan)."""


class Bm25Index:
    """BM25 index (Lucene's formula) over title and text, in memory; the texts themselves are not kept."""

    def __init__(self, passages: Iterable[Passage], settings: Bm25, language: str = "english") -> None:
        """Reads `passages` once.

        Words are stemmed where Snowball has a stemmer for `language`, and stop words are dropped where bm25s has a list
        for it. In other languages every word counts unchanged. Chinese, Japanese and Korean are cut into pairs of
        letters.
        """
        self._tokenizer = tokenizer(language)
        ids: list[str] = []

        def texts() -> Iterable[str]:
            for passage in passages:
                ids.append(passage.id)
                yield f"{passage.title} {passage.text}"

        # `streaming_tokenize` only iterates over its texts, but is annotated with a list.
        words: Any = texts()
        streamed = self._tokenizer.streaming_tokenize(words, update_vocab=True, allow_empty=False)
        tokens = [array("I", token_ids) for token_ids in streamed]  # lists need twice the memory
        self.ids = pa.array(ids, pa.string())
        self._tie_order = tie_order(self.ids)
        stemmed = self._tokenizer.stemmer is not None
        vocabulary = self._tokenizer.stem_to_sid if stemmed else self._tokenizer.word_to_id
        self._bm25 = bm25s.BM25(k1=settings.k1, b=settings.b, method="lucene", backend="numpy")
        self._empty = not vocabulary
        if not self._empty:
            corpus: Any = SimpleNamespace(ids=tokens, vocab=vocabulary)
            self._bm25.index(corpus, create_empty_token=False, show_progress=False)

    def search(
        self,
        questions: Sequence[str],
        k: int,
        report_done: Callable[[int], None] = lambda done: None,
        among: np.ndarray | None = None,
    ) -> TopPassages:
        """Returns the k best passages per question, with `among` [p] bool of its passages; ties go to the smaller id.

        Only passages that share a word with the question are hits. Where there are fewer than k, the rest is padding.
        The result is at most as wide as there are passages. (The selection of bm25s fills up with zeros and breaks ties
        by chance.)
        """
        k = width(k, len(self.ids))
        top = TopPassages.empty(len(questions), k)
        streamed = self._tokenizer.streaming_tokenize(list(questions), update_vocab=False, allow_empty=False)

        def fill(first: int, batch: Sequence[list[int]]) -> int:
            for question, tokens in enumerate(batch, first):
                if tokens and not self._empty:
                    scores = self._bm25.get_scores_from_ids(tokens)
                    if among is not None:
                        scores[~among] = 0
                    rows = best_rows(scores, self._tie_order, k)
                    top.passages[question, : len(rows)] = rows
                    top.scores[question, : len(rows)] = scores[rows]
                    top.winning_views[question, : len(rows)] = 0
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
    return ASCII_WORD.findall(text) if text.isascii() else WORD.findall(_normalised(text))


def _normalised(text: str) -> str:
    """A lower-cased text in NFKC, without the dot that Unicode leaves above the i of İ, and joiners within words."""
    composed = unicodedata.normalize("NFKC", text).lower()
    return composed.replace("i\N{COMBINING DOT ABOVE}", "i").replace("\N{ZERO WIDTH JOINER}", "")


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


def best_rows(scores: np.ndarray, tie_order: np.ndarray, k: int) -> np.ndarray:
    """Returns the rows of the k highest positive scores, best first, ties by `tie_order`; fewer when fewer are positive."""
    candidates = np.flatnonzero(scores > 0)
    if k < len(candidates):
        # Most scores are 0: partitioning them all takes 35 times as long on Zen 4.
        positive = scores[candidates]
        candidates = candidates[positive >= np.partition(positive, -k)[-k]]
    return candidates[best_first(scores[candidates], tie_order[candidates])][:k]


def bm25_negatives(context: StepContext) -> None:
    """Step: makes negatives from each question's top `bm25.depth` hits, without answer-holding passages and texts of positives.

    Inputs `passages`, `questions`; output `negatives`, one row per question, in the order of the questions. With
    `questions.hard_negatives=both` the rows of given negatives follow.
    """
    passages: Path = context.input("passages").path
    questions: list[Question] = read_questions(context.input("questions").path)
    index = Bm25Index(read_passages(passages), context.settings.bm25, context.settings.corpus.language)
    top = index.search(
        [question.question for question in questions],
        context.settings.bm25.depth,
        lambda done: context.events.progress(done, len(questions), "searches"),
    )
    equal = equal_texts(passages, positive_ids(questions))
    positive = Positives(index.ids, questions, equal).hits(top.passages)
    corpus = PassageLookup(passages)
    answer = AnswerHits(questions, index.ids, corpus, matching_mode(context.settings)).holds(top.passages)
    filtered = filter_hits(top.passages, {"positive": positive, "answer": answer})
    qids = [question.qid for question in questions]
    table = negatives_table(BM25, qids, top.passages, top.scores, filtered.kept, index.ids)
    if context.settings.questions.hard_negatives == "both":
        table = pa.concat_tables([table, given_table(questions, context.events)])
    write_negatives(context.output("negatives"), table)
    counts = filtered.kept.sum(axis=1)
    context.events.fact("questions", len(questions))
    context.events.fact("hits", int((top.passages >= 0).sum()))
    for reason, hits in filtered.totals().items():
        context.events.fact(f"excluded_{reason}", hits)
    context.events.fact("questions_without_negatives", int((counts == 0).sum()))
    context.events.metric("negatives_per_question", float(counts.mean()) if len(questions) else 0.0)
    if empty := int((counts == 0).sum()):
        context.events.warning(
            f"no BM25 negative for {empty:,} of {counted(len(questions), 'question')}: no hit survives the filter"
        )
