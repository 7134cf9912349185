"""Small worlds to mine in: vectors made by hand, so that a hit's score is known."""

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from multiview.config import Encode, Mining, Questions
from multiview.data.passages import Passage
from multiview.data.questions import Question
from multiview.index.view_index import ViewIndex
from multiview.negatives.mined import Mined, mine_hits
from tests.recording import Recorder
from tests.retrieval.corpora import passage, question, write_embeddings, write_index, write_passages

ONE = np.array([[1.0, 0.0]], np.float32)
"""One question's vector: a passage's score is the first number of its best view."""


@dataclass
class World:
    index: ViewIndex
    passages: list[Passage]
    folder: Path

    def mine(self, questions: list[Question], queries: np.ndarray = ONE, **mining) -> Mined:
        chosen = SimpleNamespace(mining=Mining(**mining), encode=Encode(), questions=Questions())
        return mine_hits(self.index, queries, questions, self.folder / "passages", chosen, Recorder())

    def names(self, mined: Mined, which: np.ndarray, row: int = 0) -> list[str]:
        return [self.passages[n].id for n in mined.top.passages[row][which[row]]]


def world(folder: Path, passages: list[Passage], views: list) -> World:
    """Passages with `views`, indexed as the steps would do it."""
    folder.mkdir(parents=True, exist_ok=True)
    ids = [p.id for p in passages]
    made = [np.asarray(v, np.float32).reshape(-1, 2) for v in views]
    embeddings = write_embeddings(folder / "embeddings", ids, made)
    write_index(folder / "index", embeddings)
    write_passages(folder / "passages", passages)
    return World(ViewIndex.load(folder / "index"), passages, folder)


def line(folder: Path, scores: list[float], texts: dict[int, str] | None = None) -> World:
    """Passages p0, p1, … that score as told for the question `ONE`."""
    passages = [passage(f"p{i}", (texts or {}).get(i, "nothing")) for i in range(len(scores))]
    return world(folder, passages, [[[score, 0.0]] for score in scores])


def asked(*positives: str, answer: str = "gold") -> list[Question]:
    return [question("q", "?", [answer], positives)]


def plain_scores(of: World, queries: np.ndarray) -> np.ndarray:
    """f(q, d) = max over the stored views, in float64 [q, p]."""
    views = np.fromfile(of.folder / "embeddings" / "views.f16", "<f2").reshape(-1, 2).astype(np.float64)
    stops = [*of.index.offsets[1:], len(views)]
    parts = zip(of.index.offsets, stops, strict=True)
    return np.array([(views[a:b] @ queries.astype(np.float64).T).max(0) for a, b in parts]).T
