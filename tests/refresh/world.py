"""A store with made-up passages, their embeddings as a model would leave them, and the steps of a refresh."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multiview.artifacts.attempt import Attempt
from multiview.artifacts.record import Record, Reference, describe_files, digest_of, load_record
from multiview.artifacts.store import LocalStore
from multiview.config import Config, canonical_json
from multiview.config.overrides import Overrides, merge
from multiview.data.passages import content_hash
from multiview.encoding.embeddings import QUERIES_FIELD
from multiview.index.faiss_library import faiss, threads
from multiview.steps.events import read_events
from multiview.steps.execution import StepTeller, run_step
from multiview.steps.table import STEPS
from tests.retrieval.corpora import passage, write_embeddings, write_passages

Corpus = dict[str, str]
"""Text by id, in order."""
DIM = 8


def numbered(*numbers: int, version: str = "") -> Corpus:
    return {f"p{number:03d}": f"text {number} {version}" for number in numbers}


def views_of(text: str) -> np.ndarray:
    """None to three views of a text [n, DIM] float16, which depend on nothing else; a text may say how far out they
    lie: `… *30`."""
    rng = np.random.default_rng(int(content_hash("", text)[:8], 16))
    scale = float(text.rpartition("*")[2]) if "*" in text else 1.0
    return (scale * rng.normal(size=(rng.integers(4), DIM))).astype(np.float16)


class World:
    def __init__(self, folder: Path, **settings: Any) -> None:
        """`settings` are overrides of all steps."""
        self.store = LocalStore(folder)
        self.settings: Overrides = merge({"index": {"measured": 5}}, settings)
        self.told: dict[str, float] = {}
        """The metrics of the last step."""
        self.made = 0

    def publish(self, kind: str, step: str, made: Path, **about: Any) -> Reference:
        """An artifact with the files in `made`, found if it is there already."""
        about = {"config": {}, "inputs": {}, **about}
        told = canonical_json({**about, "files": digest_of(describe_files(made))})
        attempt = Attempt(self.store, kind, hashlib.sha256(told.encode()).hexdigest()[:32])
        shutil.copytree(made, attempt.path, dirs_exist_ok=True)
        record, _ = attempt.publish(step=step, step_version=STEPS[step].version, **about)
        return reference(self.store, record)

    def model(self, name: str = "model") -> Reference:
        (folder := self.new_folder()).mkdir()
        (folder / "weights").write_text(name)
        return self.publish("model", "initial-model", folder)

    def passages(self, corpus: Corpus, shards: int = 2, language: str = "") -> Reference:
        made = [passage(id_, text) for id_, text in corpus.items()]
        config = {"corpus": {"language": language}} if language else {}
        folder = write_passages(self.new_folder(), made, shards)
        return self.publish("passages", "split", folder, config=config)

    def embeddings(
        self, model: Reference, passages: Reference, queries: bool = False, encode: Any = None
    ) -> list[Reference]:
        """Those of each shard of passages or changes, as `encode` would publish them."""
        found = []
        for shard in sorted(self.files(passages).glob("shard-*.parquet")):
            rows = pq.read_table(shard)
            ids, texts, hashes = (rows[name].to_pylist() for name in ("id", "text", "content_hash"))
            views = [*map(views_of, texts), np.empty((0, DIM))]
            folder = write_embeddings(self.new_folder(), ids, views, model.digest, hashes=hashes)
            if queries:
                table = pq.read_table(folder / "rows.parquet")
                asked = pa.array(
                    [[f"what of {text}?"] * (len(text) % 3) for text in texts], QUERIES_FIELD.type
                )
                pq.write_table(table.append_column(QUERIES_FIELD, asked), folder / "rows.parquet")
            read = passages.model_copy(update={"file": shard.name})
            inputs = {"model": [model], "passages": [read]}
            config = {"encode": encode or {}}
            found.append(self.publish("embeddings", "encode", folder, inputs=inputs, config=config))
        return found

    def run(self, step: str, inputs: dict[str, Any], **settings: Any) -> Record:
        """A step's output, by the runner."""
        known = STEPS[step]
        config = Config.model_validate(merge(self.settings, settings))
        told = StepTeller(self.store, "run", step, step)
        (record,) = run_step(known, told, known.configure(config), inputs).values()
        events = read_events(self.store, record.data)
        self.told = {event["name"]: event["value"] for event in events if event["event"] == "metric"}
        return record

    def index(
        self, model: Reference, passages: Reference, queries: bool = False, **settings: Any
    ) -> Reference:
        """Built from nothing."""
        made = self.embeddings(model, passages, queries, settings.get("encode"))
        inputs = {"model": model, "passages": passages, "embeddings": made}
        return reference(self.store, self.run("index", inputs, **settings))

    def changes(self, old: Reference, model: Reference, passages: Reference, **settings: Any) -> Record:
        return self.run("changes", {"index": old, "model": model, "passages": passages}, **settings)

    def refresh(
        self, old: Reference, model: Reference, passages: Reference, queries: bool = False, **settings: Any
    ) -> Reference:
        """Built from an old index."""
        changes = reference(self.store, self.changes(old, model, passages, **settings))
        inputs = {
            "old": old,
            "changes": changes,
            "model": model,
            "passages": passages,
            "embeddings": self.embeddings(model, changes, queries, settings.get("encode")),
        }
        return reference(self.store, self.run("refresh-index", inputs, **settings))

    def files(self, made: Reference) -> Path:
        return self.store.root / load_record(made.address)[1].data

    def empty_index(self, model: Reference) -> Reference:
        """An index of no passages, which is nothing to build on."""
        (folder := self.new_folder()).mkdir()
        columns = {"id": pa.array([], pa.string()), "content_hash": pa.array([], pa.string())}
        pq.write_table(pa.table(columns), folder / "passages.parquet")
        return self.publish("index", "index", folder, inputs={"model": [model]})

    def new_folder(self) -> Path:
        self.made += 1
        return self.store.root.parent / f"{self.store.root.name}-made-{self.made}"


def reference(store: LocalStore, record: Record) -> Reference:
    return Reference(address=f"{store.url}/{record.folder}", digest=record.digest)


def stored(corpus: Corpus) -> np.ndarray:
    """All views of a corpus, in order [rows, DIM] float32."""
    return np.concatenate([views_of(text) for text in corpus.values()]).astype(np.float32)


def filled_afresh(index: Any, views: np.ndarray) -> Any:
    """An index with the quantizers of `index`, and these views [rows, dim] in order, each added by itself."""
    fresh: Any = faiss.clone_index(index)
    fresh.reset()
    with threads(1):
        for view in views:
            fresh.add(view[None])
    return fresh


def check_same(index: Any, expected: Any) -> None:
    """Byte for byte."""
    assert faiss.serialize_index(index).tobytes() == faiss.serialize_index(expected).tobytes()


def edits(rng: np.random.Generator, corpus: Corpus, most: int) -> Corpus:
    """Some passages added anywhere, some changed, some removed, and sometimes all in another order; never none left."""
    rows = [(id_, text) for id_, text in corpus.items() if rng.random() > 0.2 * rng.integers(2)] or [
        ("p", "left")
    ]
    rows = [(id_, f"{text}!" if rng.random() < 0.2 * rng.integers(2) else text) for id_, text in rows]
    used: set[str] = {id_ for id_, _ in rows}
    for number in rng.integers(0, 1000, rng.integers(most + 1)).tolist():
        if (id_ := f"p{number:03d}") not in used:
            used.add(id_)
            rows.insert(int(rng.integers(len(rows) + 1)), (id_, f"new {number}"))
    if rng.random() < 0.2:
        rows = [rows[at] for at in rng.permutation(len(rows))]
    return dict(rows)
