"""Questions for evaluation that were left out because the corpus holds their gold passage or its answer no more."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

FILE = "lost_questions.json"


@dataclass(frozen=True)
class LostQuestions:
    """The questions for evaluation that have lost their gold passages, or all answers in them.

    >>> LostQuestions(questions=30, lost=("q3", "q7", "q8")).share
    0.1
    """

    questions: int
    """Number of questions given, the lost ones included."""
    lost: tuple[str, ...]
    """Ids of the lost ones, in the order of the files."""

    @property
    def share(self) -> float:
        """Share of the questions that are lost; 0 without questions."""
        return len(self.lost) / self.questions if self.questions else 0.0


def write_lost_questions(lost: LostQuestions, folder: Path) -> None:
    """Writes `lost_questions.json` into a folder; equal questions give equal bytes."""
    (folder / FILE).write_text(json.dumps({"questions": lost.questions, "lost": lost.lost}, indent=1) + "\n")


def read_lost_questions(folder: Path) -> LostQuestions:
    """Returns what `write_lost_questions` wrote into a folder."""
    content = json.loads((folder / FILE).read_text())
    return LostQuestions(content["questions"], tuple(content["lost"]))
