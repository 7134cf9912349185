"""Hard negatives mined with a trained model (CAMVR Appendix C; depth, number and filter are ours)."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from multiview.config import Mining
from multiview.data.passages import read_passages
from multiview.data.questions import Question, read_questions
from multiview.negatives.filtering import answer_holding, positive_hits, survivors
from multiview.negatives.pool import BM25, MINED, negatives_table, read_table, write_negatives


def mine(settings: Any, inputs: dict[str, Any], output: dict[str, Path], tell: Any) -> None:
    """Step: negatives of each training question from the top `mining.depth` passages of the index.

    Inputs `model`, `index`, `passages`, `questions`, and with `mining.with_bm25` `bm25_negatives`,
    whose rows then come first. Output `negatives`. Raises InputError when the index holds views of
    another model.
    """
    from multiview.encoding import encode_questions
    from multiview.index import ViewIndex

    mining: Mining = settings.mining
    index = ViewIndex.load(inputs["index"].path)
    index.check_model(inputs["model"].digest)
    questions: list[Question] = read_questions(inputs["questions"].path)
    texts = [question.question for question in questions]
    queries = encode_questions(inputs["model"].path, texts, settings.encode, tell)
    top = index.search(queries, mining.depth, lambda done: tell.progress(done, len(questions), "searches"))
    positive = positive_hits(top.passages, index.ids, questions)
    passages = read_passages(inputs["passages"].path)
    answer = answer_holding(top.passages, index.ids, passages, questions, settings.questions.answer_matching)
    left = survivors(top.passages, positive, answer)
    qids = [question.qid for question in questions]
    drawn = draw(left.kept, qids, mining.number, mining.seed)
    table = negatives_table(MINED, qids, top.passages, top.scores, drawn, index.ids)
    if mining.with_bm25:
        bm25 = read_table(inputs["bm25_negatives"].path)
        table = pa.concat_tables([bm25.filter(pc.field("source") == BM25), table])
    write_negatives(output["negatives"], table)
    counts = drawn.sum(axis=1)
    short = int((counts < mining.number).sum())
    tell.fact("questions", len(questions))
    tell.fact("hits", int((top.passages >= 0).sum()))
    tell.fact("excluded_positive", left.excluded_positive)
    tell.fact("excluded_answer", left.excluded_answer)
    tell.fact("questions_with_fewer", short)
    tell.fact("questions_without_negatives", int((counts == 0).sum()))
    tell.metric("negatives_per_question", float(counts.mean()) if questions else 0.0)
    if short:
        tell.warning(
            f"{short} of {len(questions)} questions have fewer than mining.number={mining.number} mined negatives; "
            "they keep what survives the filter: raise mining.depth for more"
        )


def draw(kept: np.ndarray, qids: list[str], number: int, seed: int) -> np.ndarray:
    """`number` of each question's kept passages, in rank order [q, k] bool; all of them where there are fewer.

    The draw depends on `seed`, the qid and the question's own hits, and on no other question.
    """
    drawn = np.zeros_like(kept)
    for question, qid in enumerate(qids):
        places = np.flatnonzero(kept[question])
        if len(places) > number:
            key = hashlib.sha256(f"{seed}:{qid}".encode()).digest()
            chosen = random.Random(key).sample(range(len(places)), number)
            places = places[chosen]
        drawn[question, places] = True
    return drawn
