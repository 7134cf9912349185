"""The questions' answers, looked for in their gold passages while the corpus is read: at their offset, near it, or anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter

import pyarrow as pa

from multiview.data.answers import has_answer
from multiview.data.corpus_scan import CorpusScan
from multiview.data.questions import Question
from multiview.data.reading.articles import ARTICLE_COLUMNS
from multiview.data.tokens import Mode, TokenizedText, is_within_token
from multiview.errors import shortened


class GoldAnswers:
    """The answers in gold passages. Answers with offsets are looked for in the first positive, others in each of them."""

    def __init__(self, scan: CorpusScan, questions: Iterable[Question], matching: Mode) -> None:
        """What is found goes to `scan`."""
        self._scan = scan
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
            self._scan.lost[question] = gone[0]
        elif found is not question:
            self._scan.moved[question] = found
        self._scan.moved_answers += moved

    def finish(self) -> None:
        """Adds what is known only after all passages."""
        self._scan.unheld = [question for question, held in self._held.items() if not held]


class ArticleAnswers:
    """The answers of questions whose gold passages are articles, looked for in the passages that these were cut into."""

    def __init__(self, scan: CorpusScan, questions: Sequence[Question], matching: Mode) -> None:
        """What is found goes to `scan`."""
        self._scan = scan
        self._matching: Mode = matching
        self._questions: dict[str, list[Question]] = {}
        """Article to the questions that name it."""
        for question in questions:
            for id_ in question.positive_ids:
                self._questions.setdefault(id_, []).append(question)
        self._wrong: dict[tuple[Question, str], str] = {}
        """(question, article) to a line about another text at the answer's offset."""
        self._nearest: dict[tuple[Question, str], tuple[int, str]] = {}
        """(question, article) to the least distance of the answer from its offset, and the passage that holds it there."""

    def see(self, table: pa.Table) -> None:
        """Looks for the answers in a table of passages, which has `ARTICLE_COLUMNS`."""
        names = ("id", "text", *ARTICLE_COLUMNS)
        for id_, text, article, begin in zip(*(table.column(n).to_pylist() for n in names), strict=True):
            about = self._questions.get(article)
            if not about:
                continue
            self._scan.cut.add(article)
            tokens = TokenizedText(text, self._matching)  # only where they are needed
            for question in about:
                if question.answer_starts:
                    held = self._is_at_offset(question, id_, text, article, begin)
                else:  # every passage holds the answer of a question without answers
                    held = not question.answers or has_answer(tokens, question.answers, self._matching)
                if held:
                    self._scan.holding.setdefault((question, article), []).append(id_)

    def _is_at_offset(self, question: Question, id_: str, text: str, article: str, begin: int) -> bool:
        """Whether a passage, which begins at `begin` of its article, holds the first answer at its offset.

        Keeps what is there instead, and the passage, if it holds the answer at another place.
        """
        answer, start = question.answers[0], (question.answer_starts or (0,))[0] - begin
        is_within = 0 <= start < len(text)
        held = is_within and text.startswith(answer, start)
        if is_within and not held and not answer.startswith(text[start:]):
            place = f"passage {id_} of article {article}"
            self._wrong[question, article] = not_at_offset(
                question, answer, start, text, place, "the article's text"
            )
        if (near := nearest(text, answer, start, self._matching)) is not None:
            here = (abs(near - start), id_)
            before = self._nearest.setdefault((question, article), here)
            self._nearest[question, article] = min(before, here, key=itemgetter(0))
        return held

    def finish(self) -> None:
        """Takes the nearest passage that holds the answer, where another text is at the offset in the article."""
        for about, wrong in self._wrong.items():
            if about not in self._scan.holding and about in self._nearest:
                self._scan.holding[about] = [self._nearest[about][1]]
                self._scan.moved_answers.append(wrong)


def find_again(
    question: Question, id_: str, text: str, matching: Mode
) -> tuple[Question | None, list[str], list[str]]:
    """Looks for answers that are not at their offset in the first positive's text; the nearest occurrence counts (see
    `nearest`).

    Returns the question with the answers that the text holds, the same object where all are at their offsets and None
    where it holds none; one line per answer that is elsewhere; and one per answer that the text does not hold.
    """
    kept: list[tuple[str, int]] = []
    moved: list[str] = []
    gone: list[str] = []
    for answer, start in zip(question.answers, question.answer_starts or (), strict=True):
        offset = nearest(text, answer, start, matching)
        if offset is not None:
            kept.append((answer, offset))
        if offset == start:
            continue
        line = not_at_offset(
            question, answer, start, text, f"passage {id_}", "the first positive passage's text"
        )
        if offset is not None:
            moved.append(line)
        else:
            where = "only within other words" if answer in text else "nowhere"
            gone.append(f"{line}, and the text holds it {where}")
    if not moved and not gone:
        return question, [], []
    if not kept:
        return None, [], gone
    answers, starts = zip(*kept, strict=True)
    return replace(question, answers=answers, answer_starts=starts), moved, gone


def nearest(text: str, answer: str, start: int, matching: Mode) -> int | None:
    """Returns the offset of the answer's occurrence that is nearest to `start`; None if there is none.

    At `start` the answer may be a part of a word, as 1990 is of 1990s. Elsewhere it counts only in whole words, or letters
    where answers are matched by characters: the 5 of 1995 is no other place of the answer 5.
    """
    if start >= 0 and text.startswith(answer, start):
        return start
    whole = (
        offset
        for offset in _occurrences(text, answer)
        if not is_within_token(text, offset, matching)
        and not is_within_token(text, offset + len(answer), matching)
    )
    return min(whole, key=lambda offset: abs(offset - start), default=None)


def _occurrences(text: str, answer: str) -> Iterator[int]:
    offset = text.find(answer)
    while offset >= 0:
        yield offset
        offset = text.find(answer, offset + 1)


def not_at_offset(question: Question, answer: str, start: int, text: str, place: str, counted: str) -> str:
    """Returns a line about another text at an answer's offset."""
    actual = text[start : start + len(answer)] if start >= 0 else ""
    return shortened(
        f"question {question.qid}: answer {answer!r} should stand at {start} of {place}, "
        f"where {actual!r} is; answer_starts count code points of {counted}"
    )
