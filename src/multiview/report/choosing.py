"""Chooses the questions that the report shows, and reads the passages that every system found for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow.parquet as pq

from multiview.data.passages import PassageLookup
from multiview.data.questions import iterate_questions, seeded_hash
from multiview.data.reading.tables import Row
from multiview.evaluation.evaluate import ranks_of
from multiview.evaluation.files import QUESTIONS_FILE
from multiview.evaluation.top_hits import TOP_HITS_FILE
from multiview.lineage.ancestry import Ancestor
from multiview.report.contents import Asked, ShownHit, ShownView

MOST = 240
"""Most questions to read; the page may have room for fewer."""

HITS, FEW_HITS = 3, 2
"""Passages per system and question; `FEW_HITS` where there are more than `MANY` systems."""
MANY = 4

GOLD = 3
"""Most gold passages to name per question."""

Outcome = Literal["won", "lost", "tied"]


def outcome(rank: int | None, base: int | None) -> Outcome:
    """Returns whether a system's first right passage ranks above the baseline's; None ranks below all."""
    mine, other = (float("inf") if r is None else r for r in (rank, base))
    return "won" if mine < other else "lost" if mine > other else "tied"


def all_wrong(ranks: Iterable[int | None]) -> bool:
    """Returns whether no system has a right passage at rank 1."""
    return all(rank != 1 for rank in ranks)


def chosen_questions(
    folders: Sequence[Path], base: int, passages: Ancestor | None, questions: Ancestor | None
) -> tuple[int, list[Asked], dict[str, tuple[str, str]]]:
    """Returns the number of all questions, at most `MOST` chosen ones, and the passages that the chosen ones name.

    `folders` are the systems' evaluations of the same questions, `base` the position of the baseline. The questions
    come in turns from four kinds, so that a page may end after any of them: some system wins, some system loses, all
    systems are wrong, and the others. Memory does not grow with the corpus. Raises InputError for a passage that is
    not in the corpus.
    """
    qids = pq.read_table(folders[0] / QUESTIONS_FILE, columns=["qid"])["qid"].to_pylist()
    first_right = np.stack([ranks_of(folder) for folder in folders], axis=1)
    ranks = np.where(np.isinf(first_right), 0, first_right).astype(np.int64)
    if passages is None or questions is None:
        return len(qids), [], {}
    rows = _in_turns(qids, ranks, base)[:MOST]
    chosen = {qids[row]: row for row in rows}
    depth = HITS if len(folders) <= MANY else FEW_HITS
    hits = [_hits(folder, list(chosen), depth) for folder in folders]
    texts_of = {q.qid: q for q in iterate_questions(questions.folder()) if q.qid in chosen}
    asked = [
        Asked(
            qid=qid,
            question=texts_of[qid].question,
            answers=texts_of[qid].answers,
            gold=texts_of[qid].positive_ids[:GOLD],
            ranks=tuple(int(rank) or None for rank in ranks[row]),
            hits=tuple(system_hits.get(qid, ()) for system_hits in hits),
        )
        for qid, row in chosen.items()
    ]
    passage_ids = {
        hit.passage for system_hits in hits for question_hits in system_hits.values() for hit in question_hits
    }
    passage_ids |= {id_ for question in asked for id_ in question.gold}
    texts = PassageLookup(passages.folder()).texts(passage_ids) if passage_ids else {}
    return len(qids), asked, texts


def _in_turns(qids: Sequence[str], ranks: np.ndarray, base: int) -> list[int]:
    """Rows of the questions, in turns from their kinds; within a kind in a random order that is always the same.

    `ranks` [q, systems] are 0 where no right passage was found.
    """
    kinds: dict[str, list[int]] = defaultdict(list)
    for row in sorted(range(len(qids)), key=lambda row: seeded_hash(0, qids[row])):
        kinds[_kind(ranks[row].tolist(), base)].append(row)
    first = [kinds[kind] for kind in ("won", "lost", "wrong", "right")]
    longest = max(map(len, first))
    return [kind[turn] for turn in range(longest) for kind in first if turn < len(kind)]


def _kind(ranks: list[int], base: int) -> str:
    known = [rank or None for rank in ranks]
    if all_wrong(known):
        return "wrong"
    outcomes = [outcome(rank, known[base]) for rank in known]
    # Where a weak system is among the rows it loses most questions: won ones are rarer, and come first.
    return "won" if "won" in outcomes else "lost" if "lost" in outcomes else "right"


def _hits(folder: Path, qids: Sequence[str], depth: int) -> dict[str, tuple[ShownHit, ...]]:
    """The best `depth` passages per question, by question id; only the first where the evaluation wrote no more."""
    file = folder / TOP_HITS_FILE
    if not file.exists():
        rows = pq.read_table(folder / QUESTIONS_FILE, filters=[("qid", "in", list(qids))]).to_pylist()
        return {row["qid"]: (_first_hit(row),) for row in rows if row["top_passage_id"] is not None}
    rows = pq.read_table(file, filters=[("qid", "in", list(qids)), ("rank", "<=", depth)]).to_pylist()
    found: dict[str, list[ShownHit]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["rank"]):
        found[row["qid"]].append(_hit(row))
    return {qid: tuple(hits) for qid, hits in found.items()}


def _hit(row: Row) -> ShownHit:
    scores, starts, stops = (row[name] or [] for name in ("view_scores", "view_starts", "view_stops"))
    starts, stops = starts or [None] * len(scores), stops or [None] * len(scores)
    return ShownHit(
        rank=row["rank"],
        passage=row["passage_id"],
        score=row["score"],
        answer=bool(row["answer"]),
        gold=bool(row["gold"]),
        view=None if row["view"] is None else row["view"] + 1,
        views=tuple(
            ShownView(number, *span)
            for number, span in enumerate(zip(scores, starts, stops, strict=True), start=1)
        ),
    )


def _first_hit(row: Row) -> ShownHit:
    spanned = row["top_start"] is not None
    view = ShownView(row["top_view"] + 1, row["top_score"], row["top_start"], row["top_stop"])
    return ShownHit(
        rank=1,
        passage=row["top_passage_id"],
        score=row["top_score"],
        answer=row["rank_of_first_answer"] == 1,
        gold=row["rank_of_first_gold"] == 1,
        view=view.number if spanned else None,
        views=(view,) if spanned else (),
    )
