"""Looks for the questions' answers in their gold passages while the corpus is read: at their offsets, or anywhere."""

import re
from collections.abc import Iterable
from dataclasses import replace

from multiview.data.answers import has_answer
from multiview.data.questions import Question
from multiview.data.tokens import Mode, TokenizedText
from multiview.errors import Report, shortened

MOVED = "questions with an answer that is not at its offset: their offsets are not used"
LOST = "questions whose gold passage holds none of their answers any more, left out"
UNHELD = "questions whose gold passages hold none of the answers, without offsets: kept, as free answers"
"""Kinds of remarks."""

SEPARATORS = re.compile(r"\s*[|;\t\n]+\s*")
PROSE = 200
"""Separators of several answers in one cell, and the length in code points from which an answer counts as prose."""


class GoldAnswers:
    """Which answers stand in gold passages, or in the pieces of gold articles.

    Answers with offsets are expected there in the first positive, answers without offsets anywhere in any positive.
    """

    def __init__(self, questions: Iterable[Question], matching: Mode, report: Report) -> None:
        self._matching: Mode = matching
        self._report = report
        self.about: dict[str, list[Question]] = {}
        """Gold passage or article to the questions that name it."""
        for question in questions:
            for id_ in question.positive_ids:
                self.about.setdefault(id_, []).append(question)
        self.lost: dict[Question, str] = {}
        """Question whose gold passage holds none of its answers any more, to a line that says so."""
        self.joined: set[Question] = set()
        """Questions without offsets where a gold passage holds an answer's part between `SEPARATORS`, not the whole."""
        self.cut: set[str] = set()
        """Ids of gold passages that are cut articles."""
        self._moved: dict[Question, str] = {}
        """Question with an answer that is not at its offset, to a line about the text that is there instead."""
        self._held: dict[Question, bool] = {}
        """Question without offsets, to whether any of its gold passages seen so far holds an answer."""
        self._at_offset: dict[tuple[Question, str], list[str]] = {}
        """(question, cut article) to the piece with the first answer at its offset."""
        self._holding: dict[tuple[Question, str], list[str]] = {}
        """(question, cut article) to the pieces of the article that hold an answer."""

    def see(self, id_: str, text: str) -> None:
        """Looks for answers in a passage that some questions name."""
        tokens = TokenizedText(text, self._matching)
        for question in self.about[id_]:
            if question.answer_starts is None:
                if question.answers and not self._held.get(question):
                    self._held[question] = has_answer(tokens, question.answers, self._matching)
                    short = [answer for answer in question.answers if len(answer) < PROSE]
                    parts = [part for answer in short for part in SEPARATORS.split(answer)]
                    is_joined = self._matching != "regex" and len(parts) > len(short)
                    if is_joined and not self._held[question] and has_answer(tokens, parts, self._matching):
                        self.joined.add(question)
            elif id_ == question.positive_ids[0]:
                pairs = zip(question.answers, question.answer_starts, strict=True)
                lines = (_not_there(question, *pair, text, f"of passage {id_}") for pair in pairs)
                line = next(filter(None, lines), "")
                if line and has_answer(tokens, question.answers, self._matching):
                    self._moved[question] = line
                elif line:
                    self.lost[question] = f"{line}, and the text holds none of the question's answers"

    def see_piece(self, id_: str, text: str, article: str, begin: int) -> None:
        """Looks for answers in a piece, which begins at offset `begin`, of an article that some questions name."""
        self.cut.add(article)
        tokens = TokenizedText(text, self._matching)
        for question in self.about[article]:
            about = question, article
            # For a question without answers, every piece counts.
            if not question.answers or has_answer(tokens, question.answers, self._matching):
                self._holding.setdefault(about, []).append(id_)
            starts = question.answer_starts if article == question.positive_ids[0] else None
            start = starts[0] - begin if starts else -1
            if not 0 <= start < len(text):
                continue
            if text.startswith(question.answers[0], start):
                self._at_offset[about] = [id_]
            elif not question.answers[0].startswith(text[start:]):  # else the cut goes through the answer
                place = f"of article {article}"
                self._moved[question] = _not_there(question, question.answers[0], start, text, place, begin)

    def finish(self) -> None:
        """Reports the questions whose answers are elsewhere, or nowhere."""
        for line in self._moved.values():
            self._report.remark(MOVED, line)
        for line in self.lost.values():
            self._report.remark(LOST, line)
        for question, held in self._held.items():
            if not held:
                line = f"question {question.qid}, passage {question.positive_ids[0]}, answer {question.answers[0]!r}"
                self._report.remark(UNHELD, line)

    def are_free(self, question: Question) -> bool:
        """Whether a question's answers have no offsets and none of its gold passages holds any of them."""
        return not self._held.get(question, True)

    def are_lost(self, question: Question) -> bool:
        """Whether the gold passage of a question holds none of its answers any more."""
        return bool(self.lost) and question in self.lost  # questions are slow to hash

    def updated(self, question: Question) -> Question:
        """Returns the question without offsets that proved wrong, and with cut articles replaced by pieces.

        A positive that is a cut article becomes those of its pieces that hold an answer (if there is an offset, the
        piece with the answer there), each with the highest grade of its articles. Offsets into an article are dropped.
        """
        moved = bool(self._moved) and question in self._moved
        now = replace(question, answer_starts=None) if moved else question
        if not self.cut or question in self.lost:
            return now
        grades: dict[str, int] = {}
        for positive, grade in question.grades.items():
            anywhere = moved or not question.answer_starts or positive != question.positive_ids[0]
            holding = self._holding.get((question, positive)) if anywhere else None
            for id_ in self._at_offset.get((question, positive)) or holding or [positive]:
                grades[id_] = max(grade, grades.get(id_, 0))
        if tuple(grades) == question.positive_ids:
            return now
        return replace(now.with_grades(grades), answer_starts=None)


def _not_there(question: Question, answer: str, start: int, text: str, place: str, begin: int = 0) -> str:
    """Returns a line about what stands at `start` of `text` instead of the answer; empty if the answer stands there.

    The text begins at offset `begin` of the passage or article that `place` names.
    """
    actual = text[start : start + len(answer)] if start >= 0 else ""
    if actual == answer:
        return ""
    return shortened(
        f"question {question.qid}: answer {answer!r} should stand at {begin + start} {place}, where {actual!r} is; "
        "answer_starts count code points of the first positive's text"
    )
