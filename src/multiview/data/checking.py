"""Checks of the corpus and the questions, for `split` and `inspect`, before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from multiview.config import Questions
from multiview.data.answers import check_patterns, has_answer
from multiview.data.corpus import CorpusFiles
from multiview.data.moved_answers import Elsewhere, nearest, not_at_offset
from multiview.data.questions import Question
from multiview.data.reading import sources
from multiview.data.reading.articles import ARTICLE_COLUMNS
from multiview.data.reading.ids import NUL, cut_id
from multiview.data.reading.judged import Use
from multiview.data.reading.kept import KeptPassages
from multiview.data.reading.problems import ReportProblem, ignore_problem, raise_problem
from multiview.data.reading.readers import questions_of
from multiview.data.seen import Seen
from multiview.data.tokens import Mode, TokenizedText
from multiview.errors import InputError, counted

VisitPassages = Callable[[pa.Table], None]


def read_questions(
    section: Questions,
    source: Sequence[str],
    use: Use,
    report_problem: ReportProblem = raise_problem,
    report_remark: ReportProblem = ignore_problem,
    kept: KeptPassages | None = None,
    found: set[str] | None = None,
) -> list[Question]:
    """Returns the questions of some sources, with unique ids. Sources without any question are a problem.

    Given negatives are kept for training questions alone, and only where `questions.hard_negatives` wants them.
    `report_problem` raises InputError by default. `report_remark` receives skipped rows and `kept` passages,
    `found` the files' columns (see `questions_of`).
    """
    locations: dict[str, str] = {}
    questions: list[Question] = []
    files = sources.expand_sources(source, use)
    for location, question in (
        located
        for group in sources.question_groups(source, use)
        for located in questions_of(
            group, section.format, section.columns, report_problem, report_remark, kept, found
        )
    ):
        if question.qid in locations:
            report_problem(
                "questions whose id was used before",
                f"{location}: question id {question.qid!r} was used before, in {locations[question.qid]}; ids must be unique",
            )
            continue
        if section.answer_matching == "regex":
            try:
                check_patterns(question.answers)
            except InputError as error:
                report_problem("answers that are no patterns", f"{location}: {error}")
                continue
        locations[question.qid] = location
        if question.negative_ids and (use != "train" or section.hard_negatives == "bm25"):
            question = replace(question, negative_ids=())
        questions.append(question)
    if files and not questions:
        report_problem("sources without questions", f"{', '.join(files)}: no questions in it")
    return questions


def check(
    corpus: CorpusFiles,
    questions: Sequence[Question],
    matching: Mode,
    progress: Callable[[int], None],
    report_problem: ReportProblem = raise_problem,
    visit: VisitPassages | None = None,
    kept: KeptPassages | None = None,
) -> Seen:
    """Reads all passages once and checks ids, texts, columns, and the answers' offsets in their passages.

    `visit` receives every passage once, in tables. Passages in `kept` are not parsed again. Raises InputError where the
    columns of the files are incompatible, or when there are no passages.
    """
    seen, row = Seen(), 0
    offsets: dict[str, list[Question]] = {}
    for question in questions:
        if question.answer_starts is not None and question.positive_ids:
            offsets.setdefault(question.positive_ids[0], []).append(question)
    articles = _by_positive(questions)
    # By gold passage, and each question to whether one of those seen so far holds an answer.
    looked_for = _by_positive(q for q in questions if q.answers and q.answer_starts is None)
    held: dict[Question, bool] = {}
    repeated = any(corpus.repeats(file) for file in corpus.files)
    texts: dict[str, int] = {}  # passage id to a hash of its text, where passages may come again
    elsewhere: dict[tuple[Question, str], Elsewhere] = {}
    for file, table in corpus.tables(kept):
        if not seen.files or seen.files[-1] != file:
            seen.files.append(file)
            seen.firsts.append(row)
        seen.further.add(table, lambda row=row, table=table: seen.location(row, len(table)))
        unseen: list[bool] = []
        for id_, text in zip(table.column("id").to_pylist(), table.column("text").to_pylist(), strict=True):
            unseen.append(id_ not in seen.rows)
            if not text.strip() and corpus.empty_text == "drop":
                unseen[-1] = False
                seen.left_out += 1
                row += 1
                continue
            if unseen[-1]:
                seen.rows[id_] = row
            elif not corpus.repeats(file):
                report_problem(
                    "passages whose id was used before",
                    f"{seen.location(row)}: passage id {id_!r} was used before, in {seen.location(seen.rows[id_])}; "
                    "ids must be unique",
                )
            if repeated and texts.setdefault(id_, hash(text)) != hash(text) and corpus.repeats(file):
                report_problem(
                    "passages of one id whose texts differ",
                    f"{seen.location(row)}, counting its passages: passage id {id_!r} has another text than in "
                    f"{seen.location(seen.rows[id_])}, here {text!r:.80}; give each text an id of its own",
                )
            if not id_:
                report_problem(
                    "passages without id",
                    f"{seen.location(row)}: the passage's id is empty; every passage needs one",
                )
            if NUL in id_:
                report_problem(
                    "passages whose id holds a NUL character",
                    str(cut_id(id_, f"{seen.location(row)}: the passage's id")),
                )
            if not text.strip():
                report_problem(
                    "passages without text",
                    f"{seen.location(row)}: passage {id_!r} has no text; leave it out, or set corpus.empty_text",
                )
            for question in offsets.pop(id_, ()):
                seen.look_for_answers(question, id_, text, matching)
            if about := looked_for.pop(id_, ()):
                tokens = TokenizedText(text, matching)
                for question in about:
                    held[question] = held.get(question, False) or has_answer(
                        tokens, question.answers, matching
                    )
            row += 1
        if ARTICLE_COLUMNS[0] in table.column_names and corpus.cuts(file):
            for question, article, id_ in _holding(table, articles, matching, elsewhere):
                seen.cut.add(article)
                if id_ is not None:
                    seen.holding.setdefault((question, article), []).append(id_)
        if visit is not None:
            visit(table.filter(pa.array(unseen, pa.bool_())))
        progress(row)
    for about, found in elsewhere.items():
        if about not in seen.holding and found.wrong and found.passage is not None:
            seen.holding[about] = [found.passage]
            seen.moved_answers.append(found.wrong)
    seen.unheld = [question for question, found in held.items() if not found]
    if not seen.rows:
        raise InputError(f"{', '.join(corpus.files)}: no passages in it; see corpus.source")
    return seen


def check_gold(
    questions: Sequence[Question],
    seen: Seen,
    setting: str,
    max_share: float,
    report_problem: ReportProblem = raise_problem,
) -> None:
    """Reports too many questions whose gold passages are not in the corpus or hold their answers no more: more than
    `max_share`, or all of them.

    The share is taken over the questions that name gold passages. Questions without gold passages are reported only
    if there are no others, because training would have no positives.
    """
    with_gold = [question for question in questions if question.positive_ids]
    if questions and not with_gold:
        report_problem(
            "sources without gold passages",
            f"{setting}: its questions name no passages (first: question {questions[0].qid}), and training needs them; "
            "name their column, as in questions.columns={positive_ids: yours}; questions with only answers "
            "can be used as questions.dev_source",
        )
    missing = [q for q in with_gold if seen.lacks_gold(q)]
    if not missing or (len(missing) <= max_share * len(with_gold) and len(missing) < len(with_gold)):
        return
    first, passage = missing[0].qid, missing[0].positive_ids[0]
    reason = f"(first: question {first}, passage {passage}); mend the ids"
    if passage in seen.cut:
        reason = (
            f"(first: question {first}: no passage that article {passage} was cut into holds its answer whole); "
            "mend the answers, or cut longer passages"
        )
    gone = "are not in the corpus"
    if any(q in seen.lost for q in missing):
        gone += " or do not hold the answer"
    if missing[0] in seen.lost:
        reason = f"(first: {seen.lost[missing[0]]}); mend the answers"
    report_problem(
        "sources whose gold passages are not in the corpus",
        f"{setting}: the gold passages of {len(missing):,} of {counted(len(with_gold), 'question')} {gone} {reason}, "
        "or allow more with questions.max_missing_gold",
    )


def _by_positive(questions: Iterable[Question]) -> dict[str, list[Question]]:
    by_positive: dict[str, list[Question]] = {}
    for question in questions:
        for id_ in question.positive_ids:
            by_positive.setdefault(id_, []).append(question)
    return by_positive


def _holding(
    table: pa.Table,
    questions: Mapping[str, Sequence[Question]],
    matching: Mode,
    elsewhere: dict[tuple[Question, str], Elsewhere],
) -> Iterator[tuple[Question, str, str | None]]:
    """Yields (question, article, passage) for each passage of a question's article.

    The passage is None where it does not hold the answer. With offsets, that is the first answer at its offset in the
    article. Without offsets, any of the answers counts. Every passage holds the answer of a question without answers.
    `elsewhere` receives offsets at which another text is, and the passages that hold the answer at another place.
    """
    names = ("id", "text", *ARTICLE_COLUMNS)
    for id_, text, article, begin in zip(*(table.column(n).to_pylist() for n in names), strict=True):
        about = questions.get(article, ())
        tokens = TokenizedText(text, matching) if about else None
        for question in about:
            if question.answer_starts:
                answer, start = question.answers[0], question.answer_starts[0] - begin
                held = 0 <= start < len(text) and text.startswith(answer, start)
                other = elsewhere.setdefault((question, article), Elsewhere())
                if 0 <= start < len(text) and not held and not answer.startswith(text[start:]):
                    other.wrong = not_at_offset(
                        question,
                        answer,
                        start,
                        text,
                        f"passage {id_} of article {article}",
                        "the article's text",
                    )
                if (near := nearest(text, answer, start, matching)) is not None:
                    other.add(id_, abs(near - start))
            else:
                held = not question.answers or has_answer(tokens or text, question.answers, matching)
            yield question, article, id_ if held else None
