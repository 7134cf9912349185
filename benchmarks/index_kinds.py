"""Comparison of kinds of index: recall, memory, building time, speed (docs/index.md).

    python -m benchmarks.index_kinds --passages 40000

Views are random: a passage is near the centre of a cluster, its views are near the passage, and a question is near a
view. The step `index` builds each kind, as in a pipeline; all questions are searched together, k = 100.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from multiview.artifacts.staged import Recorded, Staged
from multiview.config import Config, Encode, Index
from multiview.encoding.embeddings import VIEWS_FILE, EmbeddingsWriter
from multiview.index.approximate.measuring import passage_recall
from multiview.index.build import build_index
from multiview.index.view_index import INDEX_FILE, ViewIndex
from multiview.steps.context import StepContext
from multiview.steps.events import NoEvents

K = 100


def views_of(
    passages: int, most: int, dim: int, rng: np.random.Generator, spread: float = 0.7
) -> tuple[np.ndarray, np.ndarray]:
    """Random views [sum of counts, dim] float16 and counts [passages], from 1 to `most`, in clusters of 100 passages.

    `spread` is the deviation of a view from the middle of its passage, in each dimension, where passages deviate by 0.7
    from the centre of their cluster and centres by 1.
    """
    centres = rng.normal(size=(max(1, passages // 100), dim)).astype(np.float32)
    middles = centres[rng.integers(len(centres), size=passages)]
    middles += 0.7 * rng.normal(size=middles.shape).astype(np.float32)
    counts = rng.integers(1, most + 1, passages)
    views = np.repeat(middles, counts, axis=0)
    views += np.float32(spread) * rng.standard_normal(views.shape, np.float32)
    views /= np.linalg.norm(views, axis=1, keepdims=True)
    return views.astype(np.float16), counts


def write_embeddings(folder: Path, views: np.ndarray, counts: np.ndarray) -> Staged:
    """Embeddings of one shard, as `encode` writes them."""
    folder.mkdir()
    with EmbeddingsWriter(folder, views.shape[1], "random") as writer:
        for passage, count in enumerate(counts.tolist()):
            passage_id = f"p{passage:09}"
            row = writer.add_passage(passage_id, passage_id, count)
            writer.write_views(passage_id, row, views[row : row + count])
    return Staged(folder, "random")


def measure_kind(
    staged: Staged, settings: Index, queries: np.ndarray, exact: np.ndarray | None, folder: Path
) -> tuple[dict[str, str], np.ndarray]:
    """Returns a row of the table, and the passages that were found [q, K]; `exact` are those that the exact index found."""
    folder.mkdir()
    begun = time.perf_counter()
    inputs = {"model": Recorded("random"), "passages": Recorded("random"), "embeddings": [staged]}
    build_index(
        StepContext(
            Config.partial({"index": settings, "encode": Encode()}), inputs, {"index": folder}, NoEvents()
        )
    )
    built = time.perf_counter() - begun
    index = ViewIndex.load(folder)
    begun = time.perf_counter()
    found = index.search(queries, K).passages
    speed = len(queries) / (time.perf_counter() - begun)
    exact = found if exact is None else exact
    searched = folder / (VIEWS_FILE if index.exact else INDEX_FILE)
    row = {
        "kind": settings.kind,
        "faiss": index.header.get("factory", ""),
        "recall@10": f"{passage_recall(found, exact, 10):.3f}",
        "recall@100": f"{passage_recall(found, exact, 100):.3f}",
        "bytes per passage": f"{searched.stat().st_size / len(index):,.0f}",
        "build s": f"{built:.1f}",
        "questions/s": f"{speed:,.0f}",
    }
    return row, found


def main(
    passages: Annotated[int, typer.Option(help="Passages.")] = 5_000,
    views: Annotated[int, typer.Option(help="Most views per passage; each passage has 1 to this many.")] = 9,
    dim: Annotated[int, typer.Option(help="Width of a view.")] = 384,
    questions: Annotated[int, typer.Option(help="Questions.")] = 500,
    kinds: Annotated[str, typer.Option(help="Kinds, separated by spaces.")] = "exact compact tiny hnsw",
    seed: Annotated[int, typer.Option(help="Seed of views and questions.")] = 0,
) -> None:
    """Prints a table of kinds of index over random views."""
    rng = np.random.default_rng(seed)
    matrix, counts = views_of(passages, views, dim, rng)
    queries = matrix[rng.integers(len(matrix), size=questions)].astype(np.float32)
    queries += rng.standard_normal(queries.shape, np.float32) / np.sqrt(dim, dtype=np.float32)
    print(f"{passages:,} passages, {len(matrix):,} views of {dim}, {questions:,} questions\n")
    exact = None
    with tempfile.TemporaryDirectory() as temporary:
        staged = write_embeddings(Path(temporary) / "embeddings", matrix, counts)
        # The recall of other kinds is measured against the exact index, so it comes first, listed or not.
        for number, kind in enumerate(dict.fromkeys(["exact", *kinds.split()])):
            settings = Index(kind=kind, measured=0)
            row, found = measure_kind(staged, settings, queries, exact, Path(temporary) / str(number))
            if exact is None:
                exact = found
                print("| " + " | ".join(row) + " |\n|" + "---|" * len(row))
            print("| " + " | ".join(row.values()) + " |", flush=True)


if __name__ == "__main__":
    typer.run(main)
