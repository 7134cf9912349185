"""The checks of the corpus and the questions, before anything is made of them: for `split` and `inspect`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from multiview.data.answers import Mode, TokenizedText, has_answer
from multiview.data.corpus import Corpus
from multiview.data.questions import Question
from multiview.data.reading import sources
from multiview.data.reading.articles import ARTICLE_COLUMNS
from multiview.data.reading.files import base_name, shown_names
from multiview.data.reading.judged import Use
from multiview.data.reading.problems import Tell, pass_over, refuse
from multiview.data.reading.readers import PASSAGE_COLUMNS, questions_of
from multiview.errors import InputError

Look = Callable[[pa.Table], None]


def read_questions(
    section: Any, named: Sequence[str], use: Use, tell: Tell = refuse, remark: Tell = pass_over
) -> list[Question]:
    """The questions of some sources, ids being unique. Raises InputError when there are none.

    `remark` gets what is passed over (see `questions_of`).
    """
    where: dict[str, str] = {}
    found: list[Question] = []
    files = sources.expand_sources(named, use)
    for place, question in (
        one
        for group in sources.question_groups(named, use)
        for one in questions_of(group, section.format, section.columns, tell, remark)
    ):
        if question.qid in where:
            tell(
                "questions whose id was used before",
                f"{place}: question id {question.qid!r} was used before, in {where[question.qid]}; ids must be unique",
            )
            continue
        where[question.qid] = place
        found.append(question)
    if files and not found:
        tell("sources without questions", f"{', '.join(files)}: no questions in it")
    return found


@dataclass
class Seen:
    """What a reading of the whole corpus found: ids and columns, no texts."""

    rows: dict[str, int] = field(default_factory=dict)
    """Id to row, over all files."""
    extra: pa.Schema = field(default_factory=lambda: pa.schema([]))
    """The user's own columns."""
    files: list[str] = field(default_factory=list)
    firsts: list[int] = field(default_factory=list)
    """The row at which each file begins."""
    holding: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """Question and cut article to the article's passages that hold an answer."""
    cut: set[str] = field(default_factory=set)
    """Gold passages of questions that are cut articles."""
    left_out: int = 0
    """Passages without text that are left out (`corpus.empty_text`)."""

    def place(self, row: int) -> str:
        """A row of all files by its file and its number there."""
        index = bisect_right(self.firsts, row) - 1
        return f"{shown_names(self.files)[self.files[index]]} row {row - self.firsts[index] + 1}"

    def in_passages(self, question: Question) -> Question:
        """The question with each positive that is a cut article replaced by that article's passages that
        hold an answer, with the article's grade (the highest, of several). Its offsets, which counted in
        the article, have served then."""
        if not self.holding:
            return question
        grades: dict[str, int] = {}
        for positive, grade in question.grades.items():
            for id_ in self.holding.get((question.qid, positive), [positive]):
                grades[id_] = max(grade, grades.get(id_, 0))
        if tuple(grades) == question.positive_ids:
            return question
        return replace(question.with_grades(grades), answer_starts=None)


def check(
    corpus: Corpus,
    asked: Sequence[Question],
    matching: Mode,
    progress: Callable[[int], None],
    tell: Tell = refuse,
    look: Look | None = None,
) -> Seen:
    """Read all passages once: ids, texts, columns, and the answers' offsets in their passages.

    `look` is shown the passages, each once. Raises InputError where the files' columns do not go together, or when
    there are no passages.
    """
    seen, row = Seen(), 0
    offsets: dict[str, list[Question]] = {}
    for question in asked:
        if question.answer_starts is not None and question.positive_ids:
            offsets.setdefault(question.positive_ids[0], []).append(question)
    articles = _by_positive(asked)
    for file, table in corpus.tables():
        if not seen.files or seen.files[-1] != file:
            seen.files.append(file)
            seen.firsts.append(row)
        seen.extra = _unified(seen.extra, table.schema, file)
        new: list[bool] = []
        for id_, text in zip(table.column("id").to_pylist(), table.column("text").to_pylist(), strict=True):
            new.append(id_ not in seen.rows)
            if not text.strip() and corpus.empty_text == "drop":
                new[-1] = False
                seen.left_out += 1
                row += 1
                continue
            if new[-1]:
                seen.rows[id_] = row
            elif not corpus.repeats(file):
                tell(
                    "passages whose id was used before",
                    f"{seen.place(row)}: passage id {id_!r} was used before, in {seen.place(seen.rows[id_])}; "
                    "ids must be unique",
                )
            if not id_:
                tell(
                    "passages without id",
                    f"{seen.place(row)}: the passage's id is empty; every passage needs one",
                )
            if not text.strip():
                tell(
                    "passages without text",
                    f"{seen.place(row)}: passage {id_!r} has no text; leave it out, or set corpus.empty_text",
                )
            for question in offsets.pop(id_, ()):
                _check_offsets(question, id_, text, tell)
            row += 1
        if ARTICLE_COLUMNS[0] in table.column_names and corpus.cuts(file):
            for qid, article, id_ in _holding(table, articles, matching, tell):
                seen.cut.add(article)
                if id_ is not None:
                    seen.holding.setdefault((qid, article), []).append(id_)
        if look is not None:
            look(table.filter(pa.array(new, pa.bool_())))
        progress(row)
    if not seen.rows:
        raise InputError(f"{', '.join(corpus.files)}: no passages in it; see corpus.source")
    return seen


def check_gold(given: Sequence[Question], seen: Seen, setting: str, most: float, tell: Tell = refuse) -> None:
    """Whether at most the share `most` of the questions that name gold passages lacks them, and not all do.

    Questions that name none are another matter; only if all are such, training has nothing to go by.
    """
    named = [question for question in given if question.positive_ids]
    if given and not named:
        tell(
            "sources without gold passages",
            f"{setting}: its questions name no passages (first: question {given[0].qid}), and training needs them; "
            "name their column, as in questions.columns={positive_ids: yours}; questions with answers alone "
            "serve as questions.dev_source",
        )
    missing = [q for q in named if not any(id_ in seen.rows for id_ in q.positive_ids)]
    if not missing or (len(missing) <= most * len(named) and len(missing) < len(named)):
        return
    first, passage = missing[0].qid, missing[0].positive_ids[0]
    why = f"(first: question {first}, passage {passage}); mend the ids"
    if passage in seen.cut:
        why = (
            f"(first: question {first}: no passage that article {passage} was cut into holds its answer whole); "
            "mend the answers, or cut longer passages"
        )
    tell(
        "sources whose gold passages are not in the corpus",
        f"{setting}: the gold passages of {len(missing)} of {len(named)} questions are not in the corpus {why}, "
        "or allow more with questions.max_missing_gold",
    )


def _check_offsets(question: Question, id_: str, text: str, tell: Tell) -> None:
    for answer, start in zip(question.answers, question.answer_starts or (), strict=True):
        found = text[start : start + len(answer)] if start >= 0 else ""
        if found != answer:
            tell(
                "answers that are not at their offset",
                f"question {question.qid}: answer {answer!r} should stand at {start} of passage {id_}, "
                f"where {found!r} is; answer_starts count code points of the first positive passage's text",
            )


def _unified(extra: pa.Schema, schema: pa.Schema, file: str) -> pa.Schema:
    """The user's own columns of all tables so far; columns missing from some are null there."""
    own = pa.schema([f for f in schema if f.name not in PASSAGE_COLUMNS])
    try:
        return pa.unify_schemas([extra, own], promote_options="permissive")
    except pa.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"{base_name(file)}: a column's type is not that of the rows before ({reason})"
        ) from None


def _by_positive(asked: Iterable[Question]) -> dict[str, list[Question]]:
    found: dict[str, list[Question]] = {}
    for question in asked:
        for id_ in question.positive_ids:
            found.setdefault(id_, []).append(question)
    return found


def _holding(
    table: pa.Table, asked: Mapping[str, Sequence[Question]], matching: Mode, tell: Tell
) -> Iterator[tuple[str, str, str | None]]:
    """(question, article, passage) for each passage of a question's article, the passage being none where
    it does not hold the answer: the first one at its offset in the article, where there are offsets, any
    of them elsewhere. Of a question without answers every passage counts."""
    names = ("id", "text", *ARTICLE_COLUMNS)
    for id_, text, article, begin in zip(*(table.column(n).to_pylist() for n in names), strict=True):
        about = asked.get(article, ())
        tokens = TokenizedText(text) if about else None
        for question in about:
            if question.answer_starts:
                answer, start = question.answers[0], question.answer_starts[0] - begin
                held = 0 <= start < len(text) and text.startswith(answer, start)
                if 0 <= start < len(text) and not held and not answer.startswith(text[start:]):
                    tell(
                        "answers that are not at their offset",
                        f"question {question.qid}: answer {answer!r} should stand at {question.answer_starts[0]} "
                        f"of article {article}, where {text[start : start + len(answer)]!r} is; answer_starts "
                        "count code points of the article's text",
                    )
            else:
                held = not question.answers or has_answer(tokens or text, question.answers, matching)
            yield question.qid, article, id_ if held else None
