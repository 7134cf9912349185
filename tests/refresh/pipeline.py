"""A store to refresh: a corpus that changes, an untrained model, and the pipeline's steps in this process."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from multiview import names
from multiview.artifacts.record import Record, load_record
from multiview.artifacts.staging import stage
from multiview.artifacts.store import LocalStore, Store
from multiview.config.overrides import Overrides, merge
from multiview.model.systems import resolve
from multiview.steps.path import StepPath
from pipelines.plans.plan import Plan
from pipelines.plans.refresh import refresh
from tests.pipelines.inprocess import Records, run_plan
from tests.servers import new_database
from tests.serving.world import write_corpus
from tests.tiny import tiny_bert

Rows = list[dict[str, Any]]


@dataclass
class World:
    """`rows` is the corpus as it is now; `refresh` reads it from a file."""

    folder: Path
    store: Store
    base: Path
    rows: Rows
    settings: Overrides = field(default_factory=dict)

    @classmethod
    def make(cls, folder: Path, **settings: Any) -> World:
        passages, questions = write_corpus(folder)
        base = tiny_bert(folder / "base")
        new_database(folder)
        world = cls(folder, LocalStore(folder / "store"), base, pq.read_table(passages).to_pylist())
        world.settings = {
            "corpus": {"source": str(folder / "now.parquet"), "shards": 2},
            "questions": {"source": str(questions), "dev_share": 0.5, "max_missing_gold": 0.5},
            "model": {
                "base": str(base),
                "architecture": "camvr",
                "views": 4,
                "passage_length": 64,
                "question_length": 24,
            },
            "encode": {"batch_tokens": 512},
            "evaluation": {"depth": 10, "at": [1, 5]},
            "gate": {"drops": {}},
            "comparison": {"resamples": 200},
        }
        return world

    def with_model(self, seed: int = 0) -> str:
        """Make a model; its address."""
        return self.with_model_of(tiny_bert(self.folder / f"base-{seed}", seed))

    def with_model_of(self, base: Path) -> str:
        config = resolve(merge(self.settings, {"model": {"base": str(base)}}))
        plan = Plan("model")
        plan.add(StepPath("initial-model"), "initial-model", config)
        record = run_plan(plan, self.store, "model")["initial-model"][names.MODEL]
        return f"{self.store.url}/{record.folder}"

    def plan(self, **changes: Any) -> Plan:
        pq.write_table(pa.Table.from_pylist(self.rows), self.folder / "now.parquet")
        return refresh(merge(self.settings, changes))

    def refresh(self, **changes: Any) -> Records:
        return run_plan(self.plan(**changes), self.store, "refresh")

    def change(self, *numbers: int, words: str = "It was changed.") -> None:
        self.rows = [
            {**row, "text": f"{row['text']} {words}"} if number in numbers else row
            for number, row in enumerate(self.rows)
        ]

    def add(self, *ids: str) -> None:
        text = "The silver river ran past the old castle. Nobody knew its name."
        self.rows += [{**self.rows[0], "id": one, "title": one, "text": f"{text} {one} did."} for one in ids]

    def remove(self, *ids: str) -> None:
        self.rows = [row for row in self.rows if row["id"] not in ids]

    def files(self, record: Record) -> Path:
        return stage(*load_record(f"{self.store.url}/{record.folder}")).path
