"""The checks of the questions, which `split` and `inspect` run alike before anything is written.

`split` ends at the first problem, `inspect` counts all of them: `report_problem` decides.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import chain

from multiview.config import Questions
from multiview.data.answers import check_patterns
from multiview.data.corpus_scan import CorpusScan
from multiview.data.questions import Question
from multiview.data.reading import sources
from multiview.data.reading.qrels import Use
from multiview.data.reading.readers import questions_of
from multiview.data.reading.values import look_alike
from multiview.errors import InputError, ReportProblem, counted, ignore_problem, nearest, raise_problem


def read_all_questions(
    section: Questions,
    report_problem: ReportProblem = raise_problem,
    report_remark: ReportProblem = ignore_problem,
) -> tuple[list[Question], list[Question]]:
    """Returns the training and the dev questions (see `read_questions`). Reports mappings to columns that no file has."""
    found: set[str] = set()
    train = read_questions(section, section.source, "train", report_problem, report_remark, found)
    dev = read_questions(section, section.dev_source, "dev", report_problem, report_remark, found)
    for name, column in section.columns.items() if found else ():  # else no file names its columns
        if column not in found:
            line = f"questions.columns={{{name}: {column}}}: no file of questions has this column"
            report_problem("columns that no file has", f"{line}{nearest(column, sorted(found))}")
    return train, dev


def read_questions(
    section: Questions,
    source: Sequence[str],
    use: Use,
    report_problem: ReportProblem = raise_problem,
    report_remark: ReportProblem = ignore_problem,
    found: set[str] | None = None,
) -> list[Question]:
    """Returns the questions of some sources, with unique ids. Sources without any question are a problem.

    Given negatives are kept for training questions alone, and only where `questions.hard_negatives` wants them.
    `report_remark` receives skipped rows, `found` the files' columns (see `questions_of`).
    """
    locations: dict[str, str] = {}
    questions: list[Question] = []
    groups = sources.question_groups(source, use)
    for location, question in chain.from_iterable(
        questions_of(group, section.format, section.columns, report_problem, report_remark, found)
        for group in groups
    ):
        if question.qid in locations:
            report_problem(
                "questions whose id was used before",
                f"{location}: question id {question.qid!r} was used before, in {locations[question.qid]}; ids must be "
                "unique, and where a file has none they begin with its name: rename it",
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
    if groups and not questions:
        files = ", ".join(chain.from_iterable(groups))
        report_problem("sources without questions", f"{files}: no questions in it")
    return questions


def check_gold(
    questions: Sequence[Question],
    scan: CorpusScan,
    setting: str,
    max_share: float,
    report_problem: ReportProblem = raise_problem,
) -> None:
    """Reports when more than `max_share` of the questions, or all of them, have lost their gold passages or the answers
    in them.

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
    missing = [q for q in with_gold if scan.lacks_gold(q)]
    if not missing or (len(missing) <= max_share * len(with_gold) and len(missing) < len(with_gold)):
        return
    first, passage = missing[0], missing[0].positive_ids[0]
    if scan.answers.are_lost(first):
        reason = f"(first: {scan.answers.lost[first]}); mend the answers"
    elif passage in scan.answers.cut:
        reason = (
            f"(first: question {first.qid}: no passage that article {passage} was cut into holds its answer whole); "
            "mend the answers, or cut longer passages"
        )
    else:
        reason = f"(first: question {first.qid}, passage {look_alike(passage, scan.rows)}); mend the ids"
    report_problem(
        "sources whose gold passages are not in the corpus",
        f"{setting}: the gold passages of {len(missing):,} of {counted(len(with_gold), 'question')} are not in the corpus or "
        f"do not hold the answer {reason}, or allow more with questions.max_missing_gold",
    )


def check_answers(
    questions: Sequence[Question],
    scan: CorpusScan,
    setting: str,
    report_problem: ReportProblem = raise_problem,
) -> None:
    """Reports answers of which not one is in a gold passage: they may be lists that were taken for one answer."""
    answered = [q for q in questions if q.answers and q.positive_ids and not scan.lacks_gold(q)]
    if answered and all(map(scan.answers.are_free, answered)):
        report_problem(
            "answers that no gold passage holds",
            f"{setting}: none of the answers of {counted(len(answered), 'question')} is in its gold passage (first: "
            f"{answered[0].answers[0]!r:.80}): are they answers? Free ones need questions.free_answers=true",
        )


def check_held_out(questions: Sequence[Question], report_problem: ReportProblem = raise_problem) -> None:
    """Reports that no training question can be held out, because all are about one passage."""
    if len({question.positive_ids[0] for question in questions}) == 1:
        report_problem(
            "training questions that are all about one passage",
            "questions.source: all questions are about one passage, so nothing can be held out; "
            "give questions.dev_source",
        )


def check_negatives(
    questions: Sequence[Question],
    named: str,
    ids: Collection[str],
    wanted: str,
    report_problem: ReportProblem,
) -> None:
    """Reports training questions without any given negative, where `questions.hard_negatives` wants some; `named` is the
    first one that they name."""
    if wanted != "bm25" and not any(question.negative_ids for question in questions):
        first = f" (first: {look_alike(named, ids)})" if named else ""
        report_problem(
            "given negatives of which none is in the corpus",
            f"questions.hard_negatives={wanted}: no training question names a negative that is in the corpus{first}; "
            "name their column, as in questions.columns={negative_ids: yours}, or set questions.hard_negatives=bm25",
        )


def check_shards(passages: Collection[str], shards: int, report_problem: ReportProblem) -> None:
    """Reports a corpus of fewer passages than shards."""
    if len(passages) < shards:
        report_problem(
            "more shards than passages",
            f"corpus.shards={shards}: the corpus has only {counted(len(passages), 'passage')}; set fewer shards",
        )
