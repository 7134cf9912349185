"""Chooses the questions that the report shows, and reads the passages that every system found for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from multiview.artifacts.record import Artifact
from multiview.artifacts.staging import stage
from multiview.data.passages import PassageLookup
from multiview.data.questions import iterate_questions, seeded_hash
from multiview.data.reading.tables import Row
from multiview.errors import InputError
from multiview.evaluation.evaluate import ranks_of
from multiview.evaluation.files import QUESTIONS_FILE
from multiview.evaluation.top_hits import TOP_HITS_FILE
from multiview.report.contents import Asked, outcome

QUESTIONS = 240
"""Most questions to show."""
RANKINGS = 600
"""Most rankings to show: with more systems there are fewer questions."""
HITS = 2
"""Passages per system and question."""
GOLD = 3
"""Most gold passages to name per question."""

KINDS = ("won", "lost", "wrong", "right")
"""Kinds of questions in the page's order: a system wins, a system loses, all systems are wrong, and the others."""


def chosen_questions(
    folders: Sequence[Path], base: int, passages: Artifact, questions: Artifact
) -> tuple[list[Asked], dict[str, tuple[str, str]]]:
    """Returns the chosen questions, and title and text of the passages that they name.

    `folders` are the systems' evaluations of the same questions, `base` is the position of the baseline. Memory does
    not grow with the corpus. Raises InputError for a passage that is not in the corpus, and for an evaluation of an
    earlier version, which did not write its first passages.
    """
    qids = pq.read_table(folders[0] / QUESTIONS_FILE, columns=["qid"])["qid"].to_pylist()
    first_right = np.stack([ranks_of(folder) for folder in folders], axis=1)
    ranks = [[None if np.isinf(rank) else int(rank) for rank in row] for row in first_right]
    chosen = _choice(qids, ranks, base, min(QUESTIONS, RANKINGS // len(folders)))
    hits = [_hits(folder, list(chosen)) for folder in folders]
    texts_of = {q.qid: q for q in iterate_questions(stage(*questions).path) if q.qid in chosen}
    asked = [
        Asked(
            qid=qid,
            question=texts_of[qid].question,
            answers=texts_of[qid].answers,
            gold=texts_of[qid].positive_ids[:GOLD],
            ranks=tuple(ranks[row]),
            hits=[system_hits.get(qid, []) for system_hits in hits],
        )
        for qid, row in chosen.items()
    ]
    shown = {hit["passage_id"] for question in asked for found in question.hits for hit in found}
    shown |= {id_ for question in asked for id_ in question.gold}
    return asked, PassageLookup(stage(*passages).path).texts(shown) if shown else {}


def _choice(
    qids: Sequence[str], ranks: Sequence[Sequence[int | None]], base: int, most: int
) -> dict[str, int]:
    """At most `most` questions and their rows, taken in turns from the kinds, within a kind always in the same random
    order."""
    rows = {qid: row for row, qid in enumerate(qids)}
    members: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for qid in sorted(qids, key=lambda qid: seeded_hash(0, qid)):
        members[_kind(ranks[rows[qid]], base)].append(qid)
    turns = [(turn, kind, qid) for kind, of in enumerate(members.values()) for turn, qid in enumerate(of)]
    taken = sorted(sorted(turns)[:most], key=lambda each: each[1])
    return {qid: rows[qid] for _, _, qid in taken}


def _kind(ranks: Sequence[int | None], base: int) -> str:
    if 1 not in ranks:
        return "wrong"
    outcomes = [outcome(rank, ranks[base]) for rank in ranks]
    # Where a weak system is among the rows it loses most questions: won ones are rarer, and come first.
    return "won" if "won" in outcomes else "lost" if "lost" in outcomes else "right"


def _hits(folder: Path, qids: Sequence[str]) -> dict[str, list[Row]]:
    """The best `HITS` passages per question, by question id."""
    if not (folder / TOP_HITS_FILE).is_file():
        raise InputError(f"{folder} has no {TOP_HITS_FILE}: evaluate again")
    filters = [("qid", "in", list(qids)), ("rank", "<=", HITS)]
    found: dict[str, list[Row]] = defaultdict(list)
    for row in pq.read_table(folder / TOP_HITS_FILE, filters=filters).sort_by("rank").to_pylist():
        found[row["qid"]].append(row)
    return found
