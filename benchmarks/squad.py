"""SQuAD as benchmarks read it: its rows, a corpus written without `split`, and what `split` makes of it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multiview.config import Config
from multiview.data.passages import ROW_GROUP, SCHEMA, Passage, content_hash
from multiview.data.questions import Question
from multiview.data.split import split
from multiview.steps.context import StepContext
from multiview.steps.path import shard_file

OUTPUTS = ("passages", "train_questions", "dev_questions")
"""Outputs of the step `split`."""


def squad_passages(data: Path) -> list[Passage]:
    """The passages of SQuAD, each as one sentence."""
    rows = pq.read_table(data / "passages.parquet").to_pylist()
    return [Passage(row["id"], row["title"], row["text"], (len(row["text"]),)) for row in rows]


def repeated(passages: Sequence[Passage], size: int) -> list[Passage]:
    """`size` passages: those of a corpus, repeated with other ids if more are asked for."""
    rounds = (replace(p, id=f"{p.id}-{n}" if n else p.id) for n in itertools.count() for p in passages)
    return list(itertools.islice(rounds, size))


def squad_questions(data: Path, part: str, count: int, seed: int) -> list[Question]:
    """`count` random questions of `part`, train or dev."""
    rows = pq.read_table(data / f"{part}.parquet").to_pylist()
    drawn = np.random.default_rng(seed).choice(len(rows), min(count, len(rows)), replace=False)
    return [
        Question(row["qid"], row["question"], tuple(row["answers"]), None, (row["positive_passage_id"],))
        for row in (rows[number] for number in np.sort(drawn).tolist())
    ]


def write_passages(folder: Path, passages: Sequence[Passage]) -> None:
    """Writes a corpus of one shard, as the step `split` does."""
    folder.mkdir()
    columns = {
        "id": [passage.id for passage in passages],
        "title": [passage.title for passage in passages],
        "text": [passage.text for passage in passages],
        "sentence_ends": [passage.sentence_ends for passage in passages],
        "content_hash": [content_hash(passage.title, passage.text) for passage in passages],
    }
    file = folder / shard_file("shard-00")
    pq.write_table(pa.table(columns, SCHEMA), file, compression="zstd", row_group_size=ROW_GROUP)


def split_settings(folder: Path, form: str, shards: int) -> Config:
    """Settings of the step `split` for SQuAD in a `form`: parquet, or json (SQuAD's own)."""
    if form == "json":
        train, dev = (str(folder / "rebuilt" / f"{name}-v1.1.rebuilt.json.gz") for name in ("train", "dev"))
        return Config.partial(
            {"corpus": {"shards": shards}, "questions": {"source": train, "dev_source": dev}}
        )
    questions = {
        "source": str(folder / "train.parquet"),
        "dev_source": str(folder / "dev.parquet"),
        "columns": {"positive_ids": "positive_passage_id"},
    }
    corpus = {"source": str(folder / "passages.parquet"), "shards": shards}
    return Config.partial({"corpus": corpus, "questions": questions})


def split_into(folder: Path, config: Config) -> dict[str, Path]:
    """Runs the step; returns the folder of each output."""
    outputs = {name: folder / name for name in OUTPUTS}
    for output in outputs.values():
        output.mkdir()
    split(StepContext(config, {}, outputs))
    return outputs
