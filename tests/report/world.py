"""A small store with a comparison in it, made by the steps' own functions where these need no model."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multiview.artifacts.attempt import Attempt
from multiview.artifacts.record import Record, Reference
from multiview.artifacts.staged import Staged
from multiview.artifacts.staging import stage
from multiview.artifacts.store import LocalStore
from multiview.config import Comparison, Evaluation
from multiview.data.passages import Passage
from multiview.data.questions import Question, write_questions
from multiview.evaluation.analyses.matrices import table_of
from multiview.evaluation.compare import compare
from multiview.evaluation.evaluate import write_evaluation
from multiview.evaluation.top_hits import SCHEMA, TOP_HITS_FILE
from multiview.index.exact import TopPassages
from multiview.report.page import report
from multiview.steps.events import EventLog
from tests.recording import Recorder
from tests.retrieval.corpora import write_passages

DEPTH = 10
AT = (1, 2, 5)
STEPS = (10, 20, 30)

PASSAGES = [
    Passage(
        "p0", "Marohaven", "It is old. Its merchants grew rich on glass. Women sell salmon.", (11, 45, 63)
    ),
    Passage("p1", "Pirenburg", "It is new. Its merchants grew rich on salt. It has a tower.", (11, 44, 59)),
    Passage("p2", "Fenenmoor", "A copy stands here. The tower is of granite. It rains.", (20, 46, 54)),
    Passage("p3", "Kesolburg", "Nobody goes there. The lake is deep. Boats are blue.", (19, 37, 52)),
]
QUESTIONS = [
    Question("q0", "What made Marohaven wealthy?", ("glass",), None, ("p0",)),
    Question("q1", "What made Pirenburg wealthy?", ("salt",), None, ("p1",)),
    Question("q2", "What is the tower made of?", ("granite",), None, ("p2",)),
    Question("q3", "Which colour are the boats?", ("blue",), None, ("p3",)),
    Question("q4", "Where does it rain?", ("nowhere",), None, ("p2", "p3")),
]


@dataclass
class System:
    """A row: what it finds for each question, and its model if it has one."""

    found: Mapping[str, Sequence[str]]
    """Question to passages, best first."""
    views: int = 0
    """Of its model; 0 for none. View 1 is the title, the others the first sentences."""
    rounds: int = 0
    analyses: bool = True
    architecture: str = "camvr"


MVR = System({"q0": ["p1", "p0"], "q1": ["p1"], "q2": ["p3", "p1", "p2"], "q3": ["p0"], "q4": ["p0"]}, 4, 2)
CAMVR = System({"q0": ["p0"], "q1": ["p1"], "q2": ["p2"], "q3": ["p0", "p3"], "q4": ["p1"]}, 4, 2)
BM25 = System({"q0": ["p0"], "q1": ["p0", "p1"], "q2": ["p2"], "q3": []})
SYSTEMS = {"mvr": MVR, "camvr": CAMVR, "bm25": BM25}


@dataclass
class World:
    """`staged` and `evaluations` are what the step `report` reads."""

    folder: Path
    systems: Mapping[str, System] = field(default_factory=lambda: SYSTEMS)
    passages: Sequence[Passage] = field(default_factory=lambda: PASSAGES)
    questions: Sequence[Question] = field(default_factory=lambda: QUESTIONS)
    costs: bool = True
    seeds_of: Mapping[str, str] = field(default_factory=dict)
    tell: Recorder = field(default_factory=Recorder)

    def __post_init__(self) -> None:
        self.store = LocalStore(self.folder / "store")
        self.made: dict[str, Record] = {}
        shards = write_passages(self.folder / "shards", self.passages)
        self.publish("passages", "split", "passages", lambda path: _copy(shards, path))
        self.publish(
            "dev_questions", "split", "questions", lambda path: write_questions(self.questions, path)
        )
        evaluations = [self._evaluation(name, system) for name, system in self.systems.items()]
        self.rows = tuple(self.systems)
        settings = SimpleNamespace(
            comparison=Comparison(rows=self.rows, seeds_of=dict(self.seeds_of), resamples=200)
        )
        inputs = {"evaluations": [self.staged(name) for name in evaluations]}
        record = self.publish(
            "comparison",
            "compare",
            "comparison",
            lambda path: compare(settings, inputs, {"comparison": path}, self.tell),
            {"evaluations": evaluations},
            told=self._costs() if self.costs else {},
        )
        self.comparison, self.evaluations = self.staged(record.key), inputs["evaluations"]

    def page(self) -> str:
        """What the step writes."""
        output = self.folder / "report"
        output.mkdir(exist_ok=True)
        settings = SimpleNamespace(comparison=SimpleNamespace(rows=self.rows))
        inputs = {"comparison": self.comparison, "evaluations": self.evaluations}
        report(settings, inputs, {"report": output}, self.tell)
        return (output / "report.html").read_text(encoding="utf-8")

    def publish(
        self,
        kind: str,
        step: str,
        key: str,
        fill: Callable[[Path], Any],
        inputs: Mapping[str, Sequence[str]] | None = None,
        told: Mapping[str, float] | None = None,
        curves: Mapping[str, Sequence[float]] | None = None,
    ) -> Record:
        """An artifact with a record, made from others by their keys, and with the events of its attempt."""
        attempt = Attempt(self.store, kind, key)
        fill(attempt.path)
        log = EventLog(self.store, attempt.data)
        for name, value in (told or {}).items():
            log.metric(name, value)
        for name, values in (curves or {}).items():
            for at, value in zip(STEPS, values, strict=True):
                log.metric(name, value, at)
        log.close()
        references = {
            name: [Reference(address=self.address(made), digest=self.made[made].digest) for made in keys]
            for name, keys in (inputs or {}).items()
        }
        record, _ = attempt.publish(step=step, step_version=1, config={}, inputs=references)
        self.made[key] = record
        return record

    def address(self, key: str) -> str:
        return f"{self.store.url}/{self.made[key].folder}"

    def staged(self, key: str) -> Staged:
        return stage(self.store, self.made[key])

    def _evaluation(self, name: str, system: System) -> str:
        inputs = {"passages": ["passages"], "questions": ["questions"]}
        if system.views:
            inputs |= {"model": [self._model(name, system)], "index": [self._index(name, system)]}
        key = f"{name}-evaluation".replace("/", "_")
        self.publish("evaluation", "evaluate", key, lambda path: self._evaluate(path, system), inputs)
        return key

    def _evaluate(self, path: Path, system: System) -> None:
        top = TopPassages.empty(len(self.questions), DEPTH)
        ids = {passage.id: number for number, passage in enumerate(self.passages)}
        for row, question in enumerate(self.questions):
            for rank, passage in enumerate(system.found.get(question.qid, ())[:DEPTH]):
                top.passages[row, rank], top.scores[row, rank] = ids[passage], 20.0 - rank
                top.winning_views[row, rank] = min(1, max(0, system.views - 1))
        settings = Evaluation(depth=DEPTH, at=AT)
        shards = self.staged("passages").path
        write_evaluation(
            path, top, pa.array(list(ids)), shards, self.questions, settings, "string", Recorder()
        )
        pq.write_table(pa.Table.from_pylist(self._best(system), SCHEMA), path / TOP_HITS_FILE)
        if system.views and system.analyses:
            _analyse(path / "analyses", system.views)

    def _best(self, system: System) -> list[dict[str, Any]]:
        passages = {passage.id: passage for passage in self.passages}
        rows = []
        for question in self.questions:
            for rank, found in enumerate(system.found.get(question.qid, ())[:5]):
                passage, score = passages[found], 20.0 - rank
                right = any(answer in passage.text for answer in question.answers)
                row = {"qid": question.qid, "rank": rank + 1, "passage_id": found, "score": score}
                row |= {"answer": right, "gold": found in question.positive_ids}
                if system.views:
                    ends = [0, *passage.sentence_ends][: system.views]
                    spans = [None, *itertools.pairwise(ends)]
                    won = min(1, len(spans) - 1)
                    row["view"] = won
                    row["view_scores"] = [score - abs(view - won) for view in range(len(spans))]
                    row["view_starts"] = [span and span[0] for span in spans]
                    row["view_stops"] = [span and span[1] for span in spans]
                rows.append(row)
        return rows

    def _index(self, name: str, system: System) -> str:
        views = [min(system.views, 1 + len(passage.sentence_ends)) for passage in self.passages]
        table = pa.table({"id": [passage.id for passage in self.passages], "views": views})
        key = f"{name}-index".replace("/", "_")
        self.publish("index", "index", key, lambda path: pq.write_table(table, path / "passages.parquet"))
        return key

    def _model(self, name: str, system: System) -> str:
        """The last round's model; each round reads what was mined with the one before."""
        key = name.replace("/", "_")
        settings = json.dumps({"architecture": system.architecture})

        def fill(path: Path) -> None:
            (path / "multiview.json").write_text(settings)

        model = f"{key}-start"
        self.publish("model", "initial-model", model, fill)
        for number in range(1, system.rounds + 1):
            negatives = f"{key}-negatives-{number}"
            mined = {"model": [model]} if number > 1 else {}
            self.publish(
                "negatives", "mine" if mined else "bm25-negatives", negatives, lambda path: None, mined
            )
            model = f"{key}-{number}"
            inputs = {"start": [f"{key}-start"], "negatives": [negatives]}
            self.publish("model", "train", model, fill, inputs, curves=curves(system.views, number))
        return model

    def _costs(self) -> dict[str, float]:
        costs = {"compute_seconds": 125.0, "wall_seconds": 61.0, "questions_per_second": 812.0}
        told = {f"{cost}/{name}": value for name in self.systems for cost, value in costs.items()}
        return told | {
            f"index_bytes/{name}": 4096.0 * of.views for name, of in self.systems.items() if of.views
        }


def curves(views: int, number: int) -> dict[str, list[float]]:
    """What a round of training tells at `STEPS`."""
    shares = {f"view_{view + 1}_wins": [1 / views] * len(STEPS) for view in range(views)}
    losses = [3.0 / number, 2.0 / number, 1.0 / number]
    return {"loss": losses, "temperature": [1.0, 0.5, 0.3], "fallback_share": [0.3, 0.2, 0.1], **shares}


def _analyse(folder: Path, views: int) -> None:
    folder.mkdir()
    (folder / "metrics.json").write_text(json.dumps({"view_cosine": 0.5}))
    means = np.full((views, views), 0.5) + np.eye(views) / 2
    pq.write_table(table_of(means), folder / "cosine.parquet")
    pq.write_table(table_of(3 * (1 - means)), folder / "attention.parquet")
    shares = np.arange(1, views + 1) / np.arange(1, views + 1).sum()
    usage = {"view": np.arange(1, views + 1), "share_of_top_1": shares, "share_of_gold": shares[::-1]}
    pq.write_table(pa.table(usage), folder / "usage.parquet")
    alone = [
        {"view": view + 1, "accuracy_at_1": shares[view], "accuracy_at_2": shares[view]}
        for view in range(views)
    ]
    rows = [*alone, {"view": None, "accuracy_at_1": 1.0, "accuracy_at_2": 1.0}]
    pq.write_table(pa.Table.from_pylist(rows), folder / "each_view.parquet")


def _copy(source: Path, target: Path) -> None:
    for file in source.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
