"""Small artifacts for the retrieval tests, written as the other steps would write them."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multiview.artifacts.staged import Named, Staged
from multiview.config import Encode, Index
from multiview.data.passages import SCHEMA, Passage, content_hash
from multiview.data.questions import Question, write_questions
from multiview.index.build import build_index
from tests.recording import Recorder


def passage(id_: str, text: str, title: str = "") -> Passage:
    return Passage(id_, title, text, (len(text),))


def question(qid: str, text: str, answers: Sequence[str], positives: Sequence[str]) -> Question:
    return Question(qid, text, tuple(answers), None, tuple(positives))


def write_passages(folder: Path, passages: Sequence[Passage], shards: int = 1) -> Path:
    folder.mkdir(parents=True)
    for number, part in enumerate(np.array_split(np.arange(len(passages)), shards)):
        rows = [
            {
                "id": p.id,
                "title": p.title,
                "text": p.text,
                "sentence_ends": list(p.sentence_ends),
                "content_hash": content_hash(p.title, p.text),
            }
            for p in (passages[i] for i in part)
        ]
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), folder / f"shard-{number:02d}.parquet")
    return folder


def questions_folder(folder: Path, questions: Sequence[Question]) -> Path:
    folder.mkdir(parents=True)
    write_questions(questions, folder)
    return folder


def write_embeddings(
    folder: Path,
    ids: Sequence[str],
    views: Sequence[np.ndarray],
    model: str = "model",
    rows_per_block: int = 4,
    hashes: Sequence[str] | None = None,
) -> Path:
    """Embeddings of passages with `views` [n_i, dim] each, in the format of `encode`.

    `hashes` are those of their contents; without, an id is a passage's text.
    """
    folder.mkdir(parents=True)
    with np.errstate(over="ignore"):
        matrix = np.concatenate(list(views)).astype("<f2")
    counts = np.array([len(v) for v in views[: len(ids)]], np.int64)
    (folder / "views.f16").write_bytes(matrix.tobytes())
    rows = {
        "id": pa.array(ids, pa.string()),
        "content_hash": pa.array(hashes or [content_hash("", id_) for id_ in ids], pa.string()),
        "offset": pa.array(np.cumsum(counts) - counts, pa.int64()),
        "views": pa.array(counts, pa.int32()),
    }
    pq.write_table(pa.table(rows), folder / "rows.parquet")
    blocks = [matrix[i : i + rows_per_block].tobytes() for i in range(0, len(matrix), rows_per_block)]
    header = {
        "dim": matrix.shape[1],
        "rows": len(matrix),
        "passages": len(ids),
        "rows_per_block": rows_per_block,
        "block_sha256": [hashlib.sha256(block).hexdigest() for block in blocks],
        "model": model,
        "environment": {},
    }
    (folder / "embeddings.json").write_text(json.dumps(header))
    return folder


def write_index(folder: Path, *shards: Path, encode: Encode | None = None, **settings) -> Recorder:
    """An index of the embeddings in some folders, as the step builds it of their own model."""
    folder.mkdir(exist_ok=True)
    tell = Recorder()
    model = json.loads((shards[0] / "embeddings.json").read_text())["model"] if shards else "model"
    staged = [Staged(shard, shard.name) for shard in shards]
    inputs = {"model": Named(model), "passages": Named("passages"), "embeddings": staged}
    chosen = SimpleNamespace(index=Index(**settings), encode=encode or Encode())
    build_index(chosen, inputs, {"index": folder}, tell)
    return tell
