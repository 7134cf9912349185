"""Whether retrieved passages hold an answer, for all parts of an evaluation that ask."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np
import pyarrow as pa

from multiview.data.answers import TEXTS_AT_ONCE, QuestionAnswers
from multiview.data.passages import PassageLookup
from multiview.data.questions import Question
from multiview.data.tokens import Mode, Span, TokenizedText


class AnswerHits:
    """Whether passages hold an answer of a question; each pair of question and passage is matched once and remembered."""

    def __init__(
        self, questions: Sequence[Question], ids: pa.Array, corpus: PassageLookup, matching: Mode
    ) -> None:
        """`ids` [p] are the ids of the passages by row; `corpus` has their texts."""
        self._questions = len(questions)
        self._matching: Mode = matching
        self._answers = QuestionAnswers((question.answers for question in questions), matching)
        self._ids, self._corpus = ids, corpus
        self._pairs, self._holds = np.empty(0, np.int64), np.empty(0, bool)

    def holds(self, passage_rows: np.ndarray, questions: np.ndarray | None = None) -> np.ndarray:
        """Whether passages [q, k], -1 for none, hold an answer of their question [q, k] bool.

        `questions` [q] are the rows of the questions, by default all questions. Raises InputError for a passage that
        the corpus lacks.
        """
        questions = np.arange(self._questions) if questions is None else questions
        real = passage_rows >= 0
        pairs = (passage_rows + len(self._ids) * questions[:, None])[real]
        asked = np.sort(pairs)  # several times as fast as `np.unique`
        asked = asked[np.diff(asked, prepend=-1) > 0]
        self._match(asked[~self._known(asked)])
        holds = np.zeros(passage_rows.shape, bool)
        holds[real] = self._holds[np.searchsorted(self._pairs, pairs)]
        return holds

    def within(self, text: TokenizedText, span: Span, question: int) -> bool:
        """Whether a span of a passage's text contains a whole answer of a question (see `QuestionAnswers.within`)."""
        return self._answers.within(text, span, question)

    def _known(self, pairs: np.ndarray) -> np.ndarray:
        """Which of some rising pairs are known [n] bool."""
        if not len(self._pairs):
            return np.zeros(len(pairs), bool)
        places = np.minimum(np.searchsorted(self._pairs, pairs), len(self._pairs) - 1)
        return self._pairs[places] == pairs

    def _match(self, pairs: np.ndarray) -> None:
        """Matches pairs that are not known, rising numbers question · passages + passage."""
        if not len(pairs):
            return
        questions, passages = np.divmod(pairs, len(self._ids))
        by_passage = np.argsort(passages, kind="stable")
        passages, questions = passages[by_passage], questions[by_passage]
        starts = np.flatnonzero(np.diff(passages, prepend=-1))
        stops = np.append(starts[1:], len(pairs))
        found = np.zeros(len(pairs), bool)
        texts = self._corpus.stream_texts(self._ids.take(pa.array(passages[starts])))
        while some := list(islice(texts, TEXTS_AT_ONCE)):
            hits = [np.arange(starts[position], stops[position]) for position, _ in some]
            in_text = np.repeat(np.arange(len(some)), [len(each) for each in hits])
            tokenized = [TokenizedText(text, self._matching) for _, text in some]
            at = np.concatenate(hits)
            found[by_passage[at]] = self._answers.answered(tokenized, in_text, questions[at])
        known = np.concatenate([self._pairs, pairs])
        order = np.argsort(known, kind="stable")  # which merges what rises already
        self._pairs, self._holds = known[order], np.concatenate([self._holds, found])[order]
