"""The questions' answers, looked for in their gold passages while the corpus is read: at their offset, near it, or anywhere."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from multiview.data.answers import has_answer
from multiview.data.questions import Question
from multiview.data.tokens import Mode, TokenizedText, is_within_token
from multiview.errors import ReportProblem, ignore_problem, shortened

MOVED = "answers not at their offset, found again in the passage"
LOST = "questions whose gold passage holds none of their answers any more, left out"
UNHELD = (
    "questions whose gold passages hold none of the answers, which have no offsets: kept, as for free answers"
)
"""Kinds of remarks."""


class GoldAnswers:
    """The answers in gold passages. Answers with offsets are looked for in the first positive, others in each of them.

    Where gold passages are articles that are cut, answers are looked for in their pieces.
    """

    def __init__(
        self, questions: Iterable[Question], matching: Mode, report_remark: ReportProblem = ignore_problem
    ) -> None:
        self._matching: Mode = matching
        self._report_remark = report_remark
        self.about: dict[str, list[Question]] = {}
        """Gold passage or article to the questions that name it."""
        for question in questions:
            for id_ in question.positive_ids:
                self.about.setdefault(id_, []).append(question)
        self.lost: dict[Question, str] = {}
        """Question whose gold passage holds none of its answers any more, to a line that says so."""
        self.cut: set[str] = set()
        """Ids of gold passages that are cut articles."""
        self._moved: dict[Question, Question] = {}
        """Question to the same question with the answers that its gold passage still holds, where they stand now."""
        self._held: dict[Question, bool] = {}
        """Question without offsets to whether one of its gold passages that were seen holds an answer."""
        self._holding: dict[tuple[Question, str], list[str]] = {}
        """(question, cut article) to the pieces of the article that hold an answer."""
        self._wrong: dict[tuple[Question, str], str] = {}
        """(question, article) to a line about another text at the answer's offset."""
        self._nearest: dict[tuple[Question, str], tuple[int, int, str]] = {}
        """(question, article) to the least distance of the answer from its offset, and the beginning and id of its piece."""

    def see(self, id_: str, text: str) -> None:
        """Looks for answers in a passage that some questions name."""
        tokens = TokenizedText(text, self._matching)  # only where they are needed
        for question in self.about[id_]:
            if question.answer_starts is None:
                if question.answers and not self._held.get(question):
                    self._held[question] = has_answer(tokens, question.answers, self._matching)
            elif id_ == question.positive_ids[0]:
                self._see_offsets(question, id_, text)

    def _see_offsets(self, question: Question, id_: str, text: str) -> None:
        """Looks for answers that are not at their offset; the nearest occurrence counts (see `nearest`)."""
        kept: list[tuple[str, int]] = []
        gone: list[str] = []
        stood = list(zip(question.answers, question.answer_starts or (), strict=True))
        for answer, start in stood:
            offset = nearest(text, answer, start, self._matching)
            if offset is not None:
                kept.append((answer, offset))
            if offset != start:
                place = f"{start} of passage {id_}"
                line = not_there(question, answer, start, text, place, "the first positive passage's text")
                if offset is not None:
                    self._report_remark(MOVED, line)
                else:
                    where = "only within other words" if answer in text else "nowhere"
                    gone.append(f"{line}, and the text holds it {where}")
        if stood and not kept:
            self.lost[question] = gone[0]
            self._report_remark(LOST, gone[0])
        elif kept != stood:
            answers, starts = zip(*kept, strict=True)
            self._moved[question] = replace(question, answers=answers, answer_starts=starts)

    def see_piece(self, id_: str, text: str, article: str, begin: int) -> None:
        """Looks for answers in a piece of an article that some questions name; it begins at `begin` of the article."""
        self.cut.add(article)
        tokens = TokenizedText(text, self._matching)  # only where they are needed
        for question in self.about[article]:
            if question.answer_starts:
                held = self._is_at_offset(question, id_, text, article, begin)
            else:  # every piece holds the answer of a question without answers
                held = not question.answers or has_answer(tokens, question.answers, self._matching)
            if held:
                self._holding.setdefault((question, article), []).append(id_)

    def _is_at_offset(self, question: Question, id_: str, text: str, article: str, begin: int) -> bool:
        """Whether a piece holds the first answer at its offset.

        Keeps what is there instead, and the piece, if it holds the answer at another place.
        """
        answer, stood = question.answers[0], (question.answer_starts or (0,))[0]
        start, about = stood - begin, (question, article)
        if 0 <= start < len(text):
            if text.startswith(answer, start):
                return True
            if not answer.startswith(text[start:]):
                place = f"{stood} of article {article}"
                self._wrong[about] = not_there(question, answer, start, text, place, "the article's text")
        if (near := nearest(text, answer, start, self._matching)) is not None:
            here = abs(near - start), begin, id_
            self._nearest[about] = min(here, self._nearest.get(about, here))
        return False

    def finish(self) -> None:
        """Takes the nearest piece that holds the answer where another text is at the offset in the article, and reports
        questions whose answers are nowhere."""
        for about, line in self._wrong.items():
            if about not in self._holding and about in self._nearest:
                self._holding[about] = [self._nearest[about][2]]
                self._report_remark(MOVED, line)
        for question, held in self._held.items():
            if not held:
                line = f"question {question.qid}, passage {question.positive_ids[0]}, answer {question.answers[0]!r}"
                self._report_remark(UNHELD, line)

    def are_lost(self, question: Question) -> bool:
        """Whether the gold passage of a question holds none of its answers any more."""
        return bool(self.lost) and question in self.lost  # questions are slow to hash

    def updated(self, question: Question) -> Question:
        """Returns the question with its answers where they stand now, and with each positive that is a cut article
        replaced by its pieces that hold an answer.

        The pieces get the article's grade, or the highest grade of several articles. The offsets are dropped, because
        they counted in the article.
        """
        now = self._moved.get(question, question) if self._moved else question
        if not self._holding or question in self.lost:
            return now
        grades: dict[str, int] = {}
        for positive, grade in question.grades.items():
            for id_ in self._holding.get((question, positive), [positive]):
                grades[id_] = max(grade, grades.get(id_, 0))
        if tuple(grades) == question.positive_ids:
            return now
        return replace(now.with_grades(grades), answer_starts=None)


def nearest(text: str, answer: str, start: int, matching: Mode) -> int | None:
    """Returns the offset of the answer's occurrence that is nearest to `start`; None if there is none.

    At `start` the answer may be a part of a word, as 1990 is of 1990s. Elsewhere it counts only in whole words, or letters
    where answers are matched by characters: the 5 of 1995 is no other place of the answer 5.
    """
    if start >= 0 and text.startswith(answer, start):
        return start
    offsets = (match.start() for match in re.finditer(f"(?={re.escape(answer)})", text))
    whole = (
        offset
        for offset in offsets
        if not is_within_token(text, offset, matching)
        and not is_within_token(text, offset + len(answer), matching)
    )
    return min(whole, key=lambda offset: abs(offset - start), default=None)


def not_there(question: Question, answer: str, start: int, text: str, place: str, counted: str) -> str:
    """Returns a line about another text at an answer's `place`, which is `start` of `text`."""
    actual = text[start : start + len(answer)] if start >= 0 else ""
    return shortened(
        f"question {question.qid}: answer {answer!r} should stand at {place}, where {actual!r} is; "
        f"answer_starts count code points of {counted}"
    )
