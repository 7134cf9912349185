"""Hard negatives from the hits of BM25 (ours, with the values of DPR's maintainers)."""

import pyarrow as pa

from multiview.data.answers import matching_mode
from multiview.data.passages import PassageLookup, equal_texts, read_passages
from multiview.data.questions import positive_ids, read_questions
from multiview.errors import counted
from multiview.index.bm25 import Bm25Index
from multiview.negatives.filters import AnswerHits, Positives, filter_hits
from multiview.negatives.negatives_file import BM25, given_table, negatives_table, write_negatives
from multiview.steps.context import StepContext


def bm25_negatives(context: StepContext) -> None:
    """Step: makes negatives from each question's top `bm25.depth` hits, but those with an answer or a positive's text.

    Inputs `passages`, `questions`; output `negatives`, one row per question, in the order of the questions. With
    `questions.hard_negatives=both` the rows of given negatives follow.
    """
    passages = context.input("passages").path
    questions = read_questions(context.input("questions").path)
    index = Bm25Index.of(read_passages(passages), context.settings.bm25, context.settings.corpus.language)
    top = index.search(
        [question.question for question in questions],
        context.settings.bm25.depth,
        lambda done: context.events.progress(done, len(questions), "searches"),
    )
    equal = equal_texts(passages, positive_ids(questions))
    positive = Positives(index.ids, questions, equal).hits(top.passages)
    corpus = PassageLookup(passages)
    answer = AnswerHits(questions, index.ids, corpus, matching_mode(context.settings)).holds(top.passages)
    filtered = filter_hits(top.passages, {"positive": positive, "answer": answer})
    qids = [question.qid for question in questions]
    table = negatives_table(BM25, qids, top.passages, top.scores, filtered.kept, index.ids)
    if context.settings.questions.hard_negatives == "both":
        table = pa.concat_tables([table, given_table(questions, context.events)])
    write_negatives(context.output("negatives"), table)
    counts = filtered.kept.sum(axis=1)
    empty = int((counts == 0).sum())
    context.events.fact(
        questions=len(questions),
        hits=int((top.passages >= 0).sum()),
        **{f"excluded_{reason}": int(hits.sum()) for reason, hits in filtered.excluded.items()},
        questions_without_negatives=empty,
    )
    context.events.metric("negatives_per_question", float(counts.mean()) if len(questions) else 0.0)
    if empty:
        context.events.warning(
            f"no BM25 negative for {empty:,} of {counted(len(questions), 'question')}: no hit survives the filter"
        )
