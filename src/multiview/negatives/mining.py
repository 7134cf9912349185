"""Hard negatives mined with a trained model (CAMVR Appendix C; depth, number and filters are ours)."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from multiview.config import Config, JsonObject, Mining
from multiview.data.answers import matching_mode
from multiview.data.passages import PassageLookup, equal_texts
from multiview.data.questions import Question, positive_ids, read_questions
from multiview.errors import InputError, counted
from multiview.index.ranking import TopPassages
from multiview.index.view_index import ViewIndex
from multiview.model.base_model.checkpoint import base_fingerprint
from multiview.model.base_model.files import TEACHER
from multiview.negatives.filters import AnswerHits, Positives, above_margin, filter_hits, groups
from multiview.negatives.negatives_file import (
    MINED,
    SCHEMA,
    negatives_table,
    read_table,
    with_positives,
    write_negatives,
)
from multiview.steps.context import StepContext
from multiview.steps.events import Events

MINING_FILE = "report.parquet"


@dataclass(frozen=True)
class MiningResult:
    """Result of mining: arrays with one row per question, in the order of the questions."""

    top: TopPassages
    """The hits [q, depth]."""
    kept: np.ndarray
    """[q, depth] bool: the hits that the filters kept."""
    excluded: dict[str, np.ndarray]
    """The number of hits that each filter left out [q]."""
    sampled: np.ndarray
    """[q, depth] bool: the hard negatives."""
    found: np.ndarray
    """[q, depth] bool: answer-holding hits that become positives."""
    positive_scores: np.ndarray
    """[q] float32: s+, -inf where no positive is in the index, and everywhere without a margin."""


def cross_encoder_fingerprint(settings: Config) -> JsonObject:
    """Returns the fingerprint of `mining.cross_encoder`, if it is set: part of the key of mined negatives."""
    name = settings.mining.cross_encoder
    return {"cross_encoder": base_fingerprint(name, TEACHER)} if name else {}


def teacher_fingerprint(settings: Config) -> JsonObject:
    """Returns the fingerprint of the cross-encoder, which is part of the key of its scores. Raises InputError without one."""
    if not settings.mining.cross_encoder:
        raise InputError("mining.cross_encoder: distillation needs a cross-encoder; name one")
    return cross_encoder_fingerprint(settings)


def mine(context: StepContext) -> None:
    """Step: mines negatives of each training question from the top `mining.depth` passages of the index.

    Inputs `model`, `index`, `passages`, `questions`. With `mining.with_bm25` the rows of input `bm25_negatives`, round
    one's negatives of any source, come first. Output `negatives`, with a report: one row per question with the number
    of hits left out per reason. Raises InputError when the index holds views of another model.
    """
    from multiview.encoding.encode import encode_questions

    mining, index = context.settings.mining, ViewIndex.of_step(context)
    questions = read_questions(context.input("questions").path)
    texts = [question.question for question in questions]
    queries = encode_questions(context.input("model").path, texts, context.settings.encode, context.events)
    tables, rows, passages = [], [], context.input("passages").path
    for group, mined in mine_hits(index, queries, questions, passages, context.settings, context.events):
        qids, top = [question.qid for question in questions[group]], mined.top
        table = negatives_table(MINED, qids, top.passages, top.scores, mined.sampled, index.ids)
        tables.append(with_positives(table, top.passages, mined.found, index.ids))
        rows.append(report(mined, qids))
    if mining.with_bm25:
        round_one = read_table(context.input("bm25_negatives").path).select(SCHEMA.names)
        round_one = round_one.filter(pc.field("source") != MINED)
        no_rows = np.zeros((len(round_one), 0), np.int64)
        tables = [with_positives(round_one, no_rows, no_rows.astype(bool), index.ids), *tables]
    write_negatives(context.output("negatives"), pa.concat_tables(tables))
    reported = pa.concat_tables(rows)
    pq.write_table(reported, context.output("negatives") / MINING_FILE)
    report_counts(reported, mining, context.events)


def mine_hits(
    index: ViewIndex,
    queries: np.ndarray,
    questions: Sequence[Question],
    passages: Path,
    settings: Config,
    events: Events,
) -> Iterator[tuple[slice, MiningResult]]:
    """Yields groups of questions, each with the hits of their `queries` [q, dim], what the filters leave of them (the
    range applies first), and the sampled negatives."""
    mining: Mining = settings.mining
    equal, corpus = equal_texts(passages, positive_ids(questions)), PassageLookup(passages)
    for group, report_done in groups(len(questions), mining.depth, len(index), events):
        asked, vectors = questions[group], queries[group]
        top = index.search(vectors, mining.depth, report_done)
        shape = top.passages.shape
        reasons = {
            "range": np.broadcast_to(np.arange(shape[1]) < mining.range_start, shape),
            "positive": Positives(index.ids, asked, equal).hits(top.passages),
        }
        found = np.zeros(shape, bool)
        if mining.answer_hits != "keep":
            answers = AnswerHits(asked, index.ids, corpus, matching_mode(settings))
            reasons["answer"] = answers.holds(top.passages)
            if mining.answer_hits == "positives":
                found = reasons["answer"] & ~reasons["positive"]
        positive_scores = np.full(len(asked), -np.inf, np.float32)
        if mining.margin is not None or mining.relative_margin is not None:
            positive_scores = best_positive_scores(index, vectors, asked)
            reasons["margin"] = above_margin(
                top.scores, positive_scores, mining.margin, mining.relative_margin
            )
        if mining.cross_encoder:
            from multiview.negatives.cross_encoder import logits

            remaining, _ = filter_hits(top.passages, reasons)
            if mining.cross_encoder_above == 1:
                remaining = np.zeros_like(remaining)
            judged = logits(top.passages, remaining, index.ids, passages, asked, settings, events)
            reasons["cross_encoder"] = remaining & (1 / (1 + np.exp(-judged)) > mining.cross_encoder_above)
        kept, excluded = filter_hits(top.passages, reasons)
        sampled = sample_negatives(kept, [q.qid for q in asked], mining.number, mining.seed)
        yield group, MiningResult(top, kept, excluded, sampled, found, positive_scores)


def best_positive_scores(index: ViewIndex, queries: np.ndarray, questions: Sequence[Question]) -> np.ndarray:
    """Returns s+ [q] float32, the best score in the index of each question's positives; -inf where it has none."""
    positives = Positives(index.ids, questions)
    best = np.full(len(questions), -np.inf, np.float32)
    scores, _ = index.pair_scores(queries, positives.questions, positives.rows)
    np.maximum.at(best, positives.questions, scores)
    return best


def sample_negatives(kept: np.ndarray, qids: Sequence[str], number: int, seed: int) -> np.ndarray:
    """Returns a sample of `number` of each question's kept passages [q, k] bool; all of them where there are fewer.

    Each rank of a question has a pseudo-random number, by `seed` and qid, and the kept hits with the smallest ones are
    the sample. So a further filter replaces only the negatives that it leaves out.
    """
    sampled = np.zeros_like(kept)
    for question, qid in enumerate(qids):
        ranks = np.flatnonzero(kept[question])
        digest = hashlib.shake_128(f"{seed}:{qid}".encode()).digest(4 * kept.shape[1])
        order = np.argsort(np.frombuffer(digest, "<u4")[ranks], kind="stable")
        sampled[question, ranks[order[:number]]] = True
    return sampled


def report(mined: MiningResult, qids: Sequence[str]) -> pa.Table:
    """Returns one row per question: how many hits it has, how many are excluded per reason, left, sampled (`drawn`) and
    made positives; and s+, null without a margin or a positive in the index."""
    counts = {
        "hits": (mined.top.passages >= 0).sum(axis=1),
        **{f"excluded_{reason}": hits for reason, hits in mined.excluded.items()},
        "left": mined.kept.sum(axis=1),
        "drawn": mined.sampled.sum(axis=1),
        "positives_found": mined.found.sum(axis=1),
    }
    columns = {name: pa.array(values, pa.int32()) for name, values in counts.items()}
    scores = mined.positive_scores
    score = pa.array(scores, pa.float32(), mask=np.isneginf(scores))
    return pa.table({"qid": pa.array(qids, pa.string()), **columns, "positive_score": score})


def report_counts(rows: pa.Table, mining: Mining, events: Events) -> None:
    """Reports the sums of a `report`, as facts and metrics, and the questions with too few negatives."""
    questions, counts = len(rows), rows["drawn"].to_numpy()
    short = int((counts < mining.number).sum())
    totals = {
        "questions": questions,
        **{name: int(rows[name].to_numpy().sum()) for name in rows.column_names[1:-1]},
        "questions_with_fewer": short,
        "questions_without_negatives": int((counts == 0).sum()),
    }
    if mining.margin is not None or mining.relative_margin is not None:
        totals["questions_without_margin"] = rows["positive_score"].null_count
    events.figures(**totals)
    events.metric("negatives_per_question", float(counts.mean()) if questions else 0.0)
    if short:
        events.warning(
            f"fewer than mining.number={mining.number} mined negatives for {short:,} of {counted(questions, 'question')}, which "
            "keep what survives the filters: raise mining.depth for more"
        )
    if without := totals.get("questions_without_margin"):
        events.warning(
            f"no positive in the index for {without:,} of {counted(questions, 'question')}, so no margin applies there"
        )
