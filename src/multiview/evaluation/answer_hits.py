"""Whether retrieved passages hold an answer, for all parts of an evaluation that ask."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from multiview.data.answers import QuestionAnswers
from multiview.data.passages import PassageLookup
from multiview.data.questions import Question
from multiview.data.tokens import Mode, Span, TokenizedText
from multiview.negatives.filtering import hits_by_passage


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
        holds = np.zeros(passage_rows.shape, bool)
        # Row by row, and with its column in each number, which NumPy sorts in a fraction of the time of an order.
        bits = max(0, passage_rows.shape[1] - 1).bit_length()
        numbers = np.sort((passage_rows << bits) + np.arange(passage_rows.shape[1]), axis=1)
        passages, columns = numbers >> bits, numbers & ((1 << bits) - 1)
        first = passages >= 0
        first[:, 1:] &= passages[:, 1:] != passages[:, :-1]
        asked = (passages + len(self._ids) * questions[:, None])[first]
        if len(asked):
            self._match(np.sort(asked[~self._known(asked)]))
            found = self._holds[np.searchsorted(self._pairs, asked)]
            answered = found[np.maximum(0, np.cumsum(first).reshape(first.shape) - 1)] & (passages >= 0)
            np.put_along_axis(holds, columns, answered, axis=1)
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
        questions = pairs // len(self._ids)
        passages = (pairs - questions * len(self._ids))[
            :, None
        ]  # and not `np.divmod`, which divides one by one
        found = np.zeros(len(pairs), bool)
        for table, in_table, which, _ in hits_by_passage(
            passages, passages >= 0, self._ids, self._corpus, ["text"]
        ):
            texts = table["text"].combine_chunks()
            found[which] = self._answers.answered(texts, in_table, questions[which])
        known = np.concatenate([self._pairs, pairs])
        order = np.argsort(known, kind="stable")  # which merges what rises already
        self._pairs, self._holds = known[order], np.concatenate([self._holds, found])[order]
