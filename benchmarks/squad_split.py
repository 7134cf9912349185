"""SQuAD in MULTIVIEW_DATA as the `split` step reads it, for benchmarks."""

from __future__ import annotations

from pathlib import Path

from multiview.config import Config
from multiview.data.split import split
from multiview.steps.context import StepContext

OUTPUTS = ("passages", "train_questions", "dev_questions")


def settings(data: Path, form: str, shards: int) -> Config:
    """Settings for SQuAD's passages and questions as Parquet, or as SQuAD's JSON (`form`: parquet or json)."""
    folder = data / "squad"
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
