"""Answers that are not at their offset any more, for example because their passage was edited."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from multiview.data.questions import Question
from multiview.data.tokens import Mode, is_within_token
from multiview.errors import shortened


def find_again(
    question: Question, id_: str, text: str, matching: Mode
) -> tuple[Question | None, list[str], list[str]]:
    """Looks for answers that are not at their offset in the first positive's text; the nearest occurrence counts (see
    `nearest`).

    Returns the question with the answers that the text holds, the same object where all are at their offsets and None
    where it holds none; one line per answer that is elsewhere; and one per answer that the text does not hold.
    """
    answers: list[str] = []
    starts: list[int] = []
    moved: list[str] = []
    gone: list[str] = []
    for answer, start in zip(question.answers, question.answer_starts or (), strict=True):
        offset = nearest(text, answer, start, matching)
        if offset is None or offset != start:
            line = not_at_offset(
                question, answer, start, text, f"passage {id_}", "the first positive passage's text"
            )
            if offset is None:
                where = "only within other words" if answer in text else "nowhere"
                gone.append(f"{line}, and the text holds it {where}")
                continue
            moved.append(line)
        answers.append(answer)
        starts.append(offset)
    if not moved and not gone:
        return question, [], []
    if not answers:
        return None, [], gone
    return replace(question, answers=tuple(answers), answer_starts=tuple(starts)), moved, gone


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


@dataclass
class Elsewhere:
    """The search for an answer that may not be at its offset in a cut article."""

    wrong: str = ""
    """A line about the text at the offset, where that is another one."""
    passage: str | None = None
    """The passage that holds the answer nearest to its offset."""
    distance: int = 0

    def add(self, passage: str, distance: int) -> None:
        """Keeps `passage`, which holds the answer `distance` code points from its offset, if none is nearer."""
        if self.passage is None or distance < self.distance:
            self.passage, self.distance = passage, distance
