"""What one reading of the whole corpus finds: ids, columns, and where the questions' answers stand."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace

from multiview.data.further_columns import FurtherColumns
from multiview.data.questions import Question
from multiview.data.reading.files import shown_names
from multiview.errors import counted


@dataclass
class CorpusScan:
    """Result of reading the whole corpus once: ids and columns, no texts."""

    rows: dict[str, int] = field(default_factory=dict)
    """Passage id to row, counted over all files."""
    further: FurtherColumns = field(default_factory=FurtherColumns)
    """The user's further columns."""
    files: list[str] = field(default_factory=list)
    firsts: list[int] = field(default_factory=list)
    """The row at which each file begins."""
    holding: dict[tuple[Question, str], list[str]] = field(default_factory=dict)
    """(question, cut article) to the passages of the article that hold an answer."""
    cut: set[str] = field(default_factory=set)
    """Ids of gold passages that are cut articles."""
    left_out: int = 0
    """Number of passages without text that are left out (`corpus.empty_text`)."""
    moved: dict[Question, Question] = field(default_factory=dict)
    """Question to the same question with the answers that its gold passage still holds, where they stand now."""
    moved_answers: list[str] = field(default_factory=list)
    """One line per answer that was not at its offset and was found again in its passage."""
    lost: dict[Question, str] = field(default_factory=dict)
    """Question whose gold passage holds none of its answers any more, to a line that says so."""
    unheld: list[Question] = field(default_factory=list)
    """Questions without offsets of whose gold passages in the corpus none holds an answer: free answers, or an edit."""

    def begin(self, file: str, row: int) -> None:
        """Says that `row`, and those after it, are in `file`."""
        if self.files[-1:] != [file]:
            self.files.append(file)
            self.firsts.append(row)

    def location(self, row: int, rows: int = 1) -> str:
        """Returns the file of a row, which is counted over all files, and its number in that file, or those of several
        `rows` from it on."""
        index = bisect_right(self.firsts, row) - 1
        first = row - self.firsts[index] + 1
        numbers = f"row {first}" if rows == 1 else f"rows {first}-{first + rows - 1}"
        return f"{shown_names(self.files)[self.files[index]]} {numbers}"

    def lacks_gold(self, question: Question) -> bool:
        """Whether a question that names gold passages has lost them all, or every answer in them."""
        named = question.positive_ids
        return (bool(named) and self.rows.keys().isdisjoint(named)) or self.is_lost(question)

    def is_lost(self, question: Question) -> bool:
        """Whether the gold passage of a question holds none of its answers any more."""
        return bool(self.lost) and question in self.lost  # questions are slow to hash

    def in_passages(self, question: Question) -> Question:
        """Returns the question with each positive that is a cut article replaced by its passages that hold an answer.

        The passages get the article's grade, or the highest grade of several articles. The offsets are dropped,
        because they counted in the article.
        """
        now = self.moved.get(question, question) if self.moved else question
        if not self.holding or question in self.lost:
            return now
        grades: dict[str, int] = {}
        for positive, grade in question.grades.items():
            for id_ in self.holding.get((question, positive), [positive]):
                grades[id_] = max(grade, grades.get(id_, 0))
        if tuple(grades) == question.positive_ids:
            return now
        return replace(now.with_grades(grades), answer_starts=None)

    def unheld_line(self) -> str:
        """Returns the warning about `unheld`; empty if there are none."""
        if not self.unheld:
            return ""
        first = self.unheld[0]
        return (
            f"{counted(len(self.unheld), 'question')} whose gold passages hold none of the answers, which have no offsets: they "
            f"are kept, as for free answers (first: question {first.qid}, passage {first.positive_ids[0]}, "
            f"answer {first.answers[0]!r})"
        )
