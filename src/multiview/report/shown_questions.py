"""The questions that the report shows, with the passages that every system found for them."""

import itertools
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq

from multiview.artifacts.record import Artifact
from multiview.artifacts.staging import LocalArtifact, stage
from multiview.data.passages import PassageLookup
from multiview.data.questions import iterate_questions, seeded_hash
from multiview.data.reading.tables import Row
from multiview.evaluation.evaluate import comparable_ranks
from multiview.evaluation.files import question_ids
from multiview.evaluation.top_hits import TOP_HITS_FILE
from multiview.report.contents import QuestionResults, outcome

SHOWN_QUESTIONS = 240
SHOWN_RANKINGS = 600
"""Most rankings to show: the more systems, the fewer questions."""
HITS_PER_RANKING = 2
GOLD_PER_QUESTION = 3

KINDS = ("won", "lost", "wrong", "right")
"""Kinds of questions in the page's order: a system wins, a system loses, all systems are wrong, and the others."""


def chosen_questions(
    evaluations: Sequence[LocalArtifact], base: int, passages: Artifact, questions: Artifact
) -> tuple[list[QuestionResults], dict[str, tuple[str, str]]]:
    """Returns the chosen questions, and title and text of the passages that they name.

    `evaluations` are the systems', of the same questions, `base` is the position of the baseline. Memory does
    not grow with the corpus. Raises InputError for a passage that is not in the corpus.
    """
    folders = [staged.path for staged in evaluations]
    qids = question_ids(folders[0])
    first_right = comparable_ranks(evaluations).T
    ranks = [[None if np.isinf(rank) else int(rank) for rank in row] for row in first_right]
    chosen = _choice(qids, ranks, base, min(SHOWN_QUESTIONS, SHOWN_RANKINGS // len(folders)))
    hits = [_hits(folder, list(chosen)) for folder in folders]
    texts_of = {q.qid: q for q in iterate_questions(stage(*questions).path) if q.qid in chosen}
    results = [
        QuestionResults(
            qid=qid,
            question=texts_of[qid].question,
            answers=texts_of[qid].answers,
            gold=texts_of[qid].positive_ids[:GOLD_PER_QUESTION],
            ranks=tuple(ranks[row]),
            hits=[system_hits.get(qid, []) for system_hits in hits],
        )
        for qid, row in chosen.items()
    ]
    shown = {hit["passage_id"] for question in results for found in question.hits for hit in found}
    shown |= {id_ for question in results for id_ in question.gold}
    found = PassageLookup(stage(*passages).path).passages(shown) if shown else {}
    return results, {id_: (passage.title, passage.text) for id_, passage in found.items()}


def _choice(
    qids: Sequence[str], ranks: Sequence[Sequence[int | None]], base: int, most: int
) -> dict[str, int]:
    """At most `most` questions and their rows, taken in turn from each kind, in a fixed random order within a kind."""
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
    # A weak system would lose most questions: those that some system wins are rarer, and come first.
    return "won" if "won" in outcomes else "lost" if "lost" in outcomes else "right"


def _hits(folder: Path, qids: Sequence[str]) -> dict[str, list[Row]]:
    """The best `HITS_PER_RANKING` passages per question, by question id."""
    filters = [("qid", "in", list(qids)), ("rank", "<=", HITS_PER_RANKING)]
    found: dict[str, list[Row]] = defaultdict(list)
    for row in pq.read_table(folder / TOP_HITS_FILE, filters=filters).sort_by("rank").to_pylist():
        found[row["qid"]].append(row)
    return found


# --- a passage as the page shows it: its text with the matching part marked, and a bar per view ------

SHOWN_CHARACTERS = 700
BEFORE = 200
"""Characters to show before the matching snippet, where the text is longer than `SHOWN_CHARACTERS`."""


class Piece(NamedTuple):
    """A piece of a passage's text, with the view that represents it, if one does."""

    text: str
    view: int | None = None
    won: bool = False


def pieces(text: str, hit: Row) -> list[Piece]:
    """Returns the text, cut where views begin and end, and shortened around the view that won.

    Where views overlap, only the view that won is cut out. A view of the whole text is not marked.
    """
    spans = [span for span in _spans(hit, len(text)) if span[:2] != (0, len(text))]
    won = next((span for span in spans if span[2] == hit["view"]), None)
    if any(stop > following for (_, stop, _), (following, _, _) in itertools.pairwise(spans)):
        spans = [won] if won else []
    low = max(0, min((won[0] if won else 0) - BEFORE, len(text) - SHOWN_CHARACTERS))
    high = min(len(text), low + SHOWN_CHARACTERS)
    found, end = [Piece("…")] if low else [], low
    for start, stop, view in spans:
        start, stop = max(start, low), min(stop, high)
        if start < stop:
            found += [Piece(text[end:start])] if start > end else []
            found.append(Piece(text[start:stop], view + 1, view == hit["view"]))
            end = stop
    found += [Piece(text[end:high])] if end < high else []
    return [*found, Piece("…")] if high < len(text) else found


def _spans(hit: Row, length: int) -> list[tuple[int, int, int]]:
    """Start, stop and view of the views that represent a part of the text, in the text's order."""
    spans = zip(hit["view_starts"] or (), hit["view_stops"] or (), strict=True)
    return sorted(
        (start, stop, view)
        for view, (start, stop) in enumerate(spans)
        if start is not None and stop is not None and 0 <= start < stop <= length
    )


def widths(hit: Row, hits: Sequence[Row]) -> list[int]:
    """Returns the width of each view's bar in per cent, on one scale for all `hits`; none for a single view."""
    scores: list[float] = hit["view_scores"] or []
    if len(scores) < 2:
        return []
    every = [score for other in hits for score in other["view_scores"]]
    low, high = min(every), max(every)
    return [round(6 + 94 * (score - low) / (high - low)) if high > low else 100 for score in scores]
