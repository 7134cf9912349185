"""The questions' answers, looked for in their gold passages while the corpus is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from multiview.data.answers import has_answer
from multiview.data.moved_answers import Elsewhere, find_again, nearest, not_at_offset
from multiview.data.questions import Question
from multiview.data.reading.articles import ARTICLE_COLUMNS
from multiview.data.seen import Seen
from multiview.data.tokens import Mode, TokenizedText


class GoldAnswers:
    """The answers in gold passages. Answers with offsets are looked for in the first positive, others in each of them."""

    def __init__(self, seen: Seen, questions: Iterable[Question], matching: Mode) -> None:
        """What is found goes to `seen`."""
        self._seen = seen
        self._matching: Mode = matching
        self.awaited: dict[str, list[Question]] = {}
        """Gold passages that were not seen yet, with the questions that look for answers in them."""
        for question in questions:
            if question.answer_starts is not None:
                places = question.positive_ids[:1]
            else:
                places = question.positive_ids if question.answers else ()
            for id_ in places:
                self.awaited.setdefault(id_, []).append(question)
        self._held: dict[Question, bool] = {}
        """Question without offsets to whether one of its gold passages that were seen holds an answer."""

    def see(self, id_: str, text: str) -> None:
        """Looks for the answers that are awaited in a passage. Where a passage comes again, the first counts."""
        tokens = TokenizedText(text, self._matching)  # only where they are needed
        for question in self.awaited.pop(id_, ()):
            if question.answer_starts is not None:
                self._look_at_offsets(question, id_, text)
            elif not self._held.get(question):
                self._held[question] = has_answer(tokens, question.answers, self._matching)

    def _look_at_offsets(self, question: Question, id_: str, text: str) -> None:
        found, moved, gone = find_again(question, id_, text, self._matching)
        if found is None:
            self._seen.lost[question] = gone[0]
        elif found is not question:
            self._seen.moved[question] = found
        self._seen.moved_answers += moved

    def finish(self) -> None:
        """Adds what is known only after all passages."""
        self._seen.unheld = [question for question, held in self._held.items() if not held]


class ArticleAnswers:
    """The answers of questions whose gold passages are articles, looked for in the passages that these were cut into."""

    def __init__(self, seen: Seen, questions: Sequence[Question], matching: Mode) -> None:
        """What is found goes to `seen`."""
        self._seen = seen
        self._matching: Mode = matching
        self._questions: dict[str, list[Question]] = {}
        """Article to the questions that name it."""
        for question in questions:
            for id_ in question.positive_ids:
                self._questions.setdefault(id_, []).append(question)
        self._elsewhere: dict[tuple[Question, str], Elsewhere] = {}
        """(question, article) to an answer that may not be at its offset."""

    def see(self, table: pa.Table) -> None:
        """Looks for the answers in a table of passages, which has `ARTICLE_COLUMNS`."""
        names = ("id", "text", *ARTICLE_COLUMNS)
        for id_, text, article, begin in zip(*(table.column(n).to_pylist() for n in names), strict=True):
            about = self._questions.get(article)
            if not about:
                continue
            self._seen.cut.add(article)
            tokens = TokenizedText(text, self._matching)  # only where they are needed
            for question in about:
                if question.answer_starts:
                    held = self._is_at_offset(question, id_, text, article, begin)
                else:  # every passage holds the answer of a question without answers
                    held = not question.answers or has_answer(tokens, question.answers, self._matching)
                if held:
                    self._seen.holding.setdefault((question, article), []).append(id_)

    def _is_at_offset(self, question: Question, id_: str, text: str, article: str, begin: int) -> bool:
        """Whether a passage, which begins at `begin` of its article, holds the first answer at its offset.

        Keeps what is there instead, and the passage, if it holds the answer at another place.
        """
        answer, start = question.answers[0], (question.answer_starts or (0,))[0] - begin
        is_within = 0 <= start < len(text)
        held = is_within and text.startswith(answer, start)
        other = self._elsewhere.setdefault((question, article), Elsewhere())
        if is_within and not held and not answer.startswith(text[start:]):
            place = f"passage {id_} of article {article}"
            other.wrong = not_at_offset(question, answer, start, text, place, "the article's text")
        if (near := nearest(text, answer, start, self._matching)) is not None:
            other.add(id_, abs(near - start))
        return held

    def finish(self) -> None:
        """Takes the nearest passage that holds the answer, where another text is at the offset in the article."""
        for about, found in self._elsewhere.items():
            if about not in self._seen.holding and found.wrong and found.passage is not None:
                self._seen.holding[about] = [found.passage]
                self._seen.moved_answers.append(found.wrong)
