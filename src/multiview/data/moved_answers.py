"""Answers that are not at their offset any more, for example because their passage was edited."""

from __future__ import annotations

from dataclasses import dataclass, replace

from multiview.data.questions import Question
from multiview.errors import shortened


def find_again(question: Question, id_: str, text: str) -> tuple[Question | None, list[str], list[str]]:
    """Looks for answers that are not at their offset in the first positive's text; the nearest occurrence counts.

    Returns the question with the answers that the text holds, the same object where all are at their offsets and None
    where it holds none; one line per answer that is elsewhere; and one per answer that the text does not hold.
    """
    answers: list[str] = []
    starts: list[int] = []
    moved: list[str] = []
    gone: list[str] = []
    for answer, start in zip(question.answers, question.answer_starts or (), strict=True):
        offset = nearest(text, answer, start)
        if offset is None or offset != start:
            line = not_at_offset(
                question, answer, start, text, f"passage {id_}", "the first positive passage's text"
            )
            if offset is None:
                gone.append(f"{line}, and the text holds it nowhere")
                continue
            moved.append(line)
        answers.append(answer)
        starts.append(offset)
    if not moved and not gone:
        return question, [], []
    if not answers:
        return None, [], gone
    return replace(question, answers=tuple(answers), answer_starts=tuple(starts)), moved, gone


def nearest(text: str, answer: str, start: int) -> int | None:
    """Returns the offset of the answer's occurrence that is nearest to `start`; None if there is none."""
    if start >= 0 and text.startswith(answer, start):
        return start
    before = text.rfind(answer, 0, max(0, start) + len(answer))
    after = text.find(answer, max(0, start))
    offsets = [offset for offset in (before, after) if offset >= 0]
    return min(offsets, key=lambda offset: abs(offset - start), default=None)


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
