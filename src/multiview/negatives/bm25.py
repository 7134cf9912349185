"""Hard negatives from the hits of BM25 (ours, with the values of DPR's maintainers)."""

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

from multiview.data.answers import matching_mode
from multiview.data.passages import PassageLookup, equal_texts, read_passages
from multiview.data.questions import positive_ids, read_questions
from multiview.errors import counted
from multiview.index.bm25 import Bm25Index
from multiview.negatives.filters import AnswerHits, Positives, filter_hits, groups
from multiview.negatives.negatives_file import BM25, given_table, negatives_table, write_negatives
from multiview.steps.context import StepContext


def bm25_negatives(context: StepContext) -> None:
    """Step: makes negatives from each question's top `bm25.depth` hits, but those with an answer or a positive's text.

    Inputs `passages`, `questions`; output `negatives`, one row per question, in the order of the questions. With
    `questions.hard_negatives=both` the rows of given negatives follow.
    """
    passages, settings = context.input("passages").path, context.settings
    questions = read_questions(context.input("questions").path)
    index = Bm25Index.of(read_passages(passages), settings.bm25, settings.corpus.language)
    equal, corpus = equal_texts(passages, positive_ids(questions)), PassageLookup(passages)
    tables, counts = [], Counter[str]()
    depth = settings.bm25.depth
    for group, report_done in groups(len(questions), depth, len(index.ids), context.events):
        asked = questions[group]
        top = index.search([question.question for question in asked], depth, report_done)
        positive = Positives(index.ids, asked, equal).hits(top.passages)
        answer = AnswerHits(asked, index.ids, corpus, matching_mode(settings)).holds(top.passages)
        kept, excluded = filter_hits(top.passages, {"positive": positive, "answer": answer})
        qids = [question.qid for question in asked]
        tables.append(negatives_table(BM25, qids, top.passages, top.scores, kept, index.ids))
        counts["hits"] += int((top.passages >= 0).sum())
        counts.update({f"excluded_{reason}": int(hits.sum()) for reason, hits in excluded.items()})
    table = pa.concat_tables(tables)
    found = pc.list_value_length(table["negative_ids"]).to_numpy()
    if settings.questions.hard_negatives == "both":
        table = pa.concat_tables([table, given_table(questions, context.events)])
    write_negatives(context.output("negatives"), table)
    empty = int((found == 0).sum())
    context.events.fact(questions=len(questions), **counts, questions_without_negatives=empty)
    context.events.metric("negatives_per_question", float(found.mean()) if questions else 0.0)
    if empty:
        context.events.warning(
            f"no BM25 negative for {empty:,} of {counted(len(questions), 'question')}: no hit survives the filter"
        )
