"""Comparison of kinds of index: recall, memory, building time, speed (docs/index-kinds.md).

    python -m benchmarks.index_kinds --passages 40000

Views are random: a passage is near the centre of a cluster, its views are near the passage, and a question is near a
view. The step `index` builds each kind as in a pipeline, after a first build over a few passages; all questions are
searched together, k = 100. Builds and their peer take turns. The peer of a build is faiss alone, which trains the same
kind on all views, then adds and writes them, from memory; the step samples, reads with digests, and keeps the views
beside it. The exact index has no peer; its bound is a copy of the views with its digest.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.table import Contestant, Row, Size
from benchmarks.timing import Milliseconds, in_turns
from multiview.artifacts.record import Reference
from multiview.artifacts.staging import LocalArtifact
from multiview.config import Config, Encode, Index
from multiview.encoding.embeddings import VIEWS_FILE, EmbeddingsWriter
from multiview.evaluation.metrics import passage_recall
from multiview.index.build import build_index
from multiview.index.faiss_library import faiss, threads
from multiview.index.view_index import HEADER_FILE, INDEX_FILE, ViewIndex
from multiview.steps.context import StepContext
from multiview.steps.events import Events

K = 100
FEW = 500
"""Passages of the index that is built first, so that all modules are loaded."""


def views_of(
    passages: int, most: int, dim: int, rng: np.random.Generator, spread: float = 0.7
) -> tuple[np.ndarray, np.ndarray]:
    """Random views [sum of counts, dim] float16 and counts [passages], from 1 to `most`, in clusters of 100 passages.

    `spread` is the deviation of a view from the middle of its passage in each dimension; passages deviate by 0.7 from
    the centre of their cluster, and centres by 1.
    """
    centres = rng.normal(size=(max(1, passages // 100), dim)).astype(np.float32)
    middles = centres[rng.integers(len(centres), size=passages)]
    middles += 0.7 * rng.normal(size=middles.shape).astype(np.float32)
    counts = rng.integers(1, most + 1, passages)
    views = np.repeat(middles, counts, axis=0)
    views += np.float32(spread) * rng.standard_normal(views.shape, np.float32)
    views /= np.linalg.norm(views, axis=1, keepdims=True)
    return views.astype(np.float16), counts


def write_embeddings(folder: Path, views: np.ndarray, counts: np.ndarray) -> LocalArtifact:
    """Embeddings of one shard, as `encode` writes them."""
    folder.mkdir()
    with EmbeddingsWriter(folder, views.shape[1], "random") as writer:
        for passage, count in enumerate(counts.tolist()):
            passage_id = f"p{passage:09}"
            row = writer.add_passage(passage_id, passage_id, count)
            writer.write_views(passage_id, row, views[row : row + count])
    return LocalArtifact(folder, "random")


@dataclass(frozen=True)
class Measured:
    """The costs of a kind of index, and what it finds."""

    kind: str
    factory: str
    recall: dict[int, float]
    """By k, against the exact index."""
    bytes_per_passage: float
    builds: Milliseconds
    alone: Milliseconds
    """Builds by faiss alone, or copies of the views."""
    searches: Milliseconds
    """Searches of all questions together."""
    found: np.ndarray
    """The passages found [q, K]."""


@dataclass(frozen=True)
class Given:
    """Random views of passages, in memory and as embeddings, and questions."""

    views: np.ndarray
    """[v, dim] float16."""
    embeddings: LocalArtifact
    few: LocalArtifact
    """Embeddings of the first `FEW` passages."""
    queries: np.ndarray
    """[q, dim] float32."""


def measure_kind(
    given: Given,
    settings: Index,
    exact: np.ndarray | None,
    folder: Path,
    builds: int,
    searches: int,
    clock: Callable[[], float],
) -> Measured:
    """Builds and searches an index several times; `exact` are the passages that the exact index found [q, K]."""
    folder.mkdir()
    built = folder / "index"
    step(given.few, settings, built)

    def alone() -> None:
        factory = json.loads((built / HEADER_FILE).read_text()).get("factory")
        if factory:
            faiss_alone(given.views, factory, folder / "alone")
        else:
            copied(given.embeddings.path / VIEWS_FILE, folder / "alone")

    contestants = {"build": lambda: step(given.embeddings, settings, built), "alone": alone}
    times = in_turns(contestants, builds, clock, uncounted=0)
    index = ViewIndex.load(built)
    file = built / (VIEWS_FILE if index.exact else INDEX_FILE)
    times |= in_turns({"search": lambda: index.search(given.queries, K)}, searches, clock, uncounted=0)
    found = index.search(given.queries, K).passages
    exact = found if exact is None else exact
    return Measured(
        settings.kind,
        index.header.get("factory", ""),
        {k: passage_recall(found, exact, k) for k in (10, 100)},
        file.stat().st_size / len(index),
        times["build"],
        times["alone"],
        times["search"],
        found,
    )


def step(embeddings: LocalArtifact, settings: Index, folder: Path) -> None:
    """Builds an index in `folder`, replacing any that is there."""
    folder.mkdir(exist_ok=True)
    config = Config.partial({"index": settings, "encode": Encode()})
    inputs = {
        "model": Reference(address="", digest="random"),
        "passages": Reference(address="", digest="random"),
        "embeddings": [embeddings],
    }
    build_index(StepContext(config, inputs, {"index": folder}, Events()))


def faiss_alone(views: np.ndarray, factory: str, file: Path) -> None:
    """Trains, fills and writes an index with faiss alone."""
    index = faiss.index_factory(views.shape[1], factory, faiss.METRIC_INNER_PRODUCT)
    vectors = views.astype(np.float32)
    index.train(vectors)
    index.add(vectors)
    faiss.write_index(index, str(file))


def copied(views: Path, file: Path) -> None:
    """Copies a file and computes its digest."""
    digest = hashlib.sha256()
    with views.open("rb") as source, file.open("wb") as target:
        while block := source.read(1 << 20):
            digest.update(block)
            target.write(block)


def measure_kinds(
    passages: int,
    views: int,
    dim: int,
    questions: int,
    kinds: Iterable[str],
    seed: int,
    builds: int = 1,
    searches: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[Measured]:
    """Measures kinds of index over random views; the exact one comes first."""
    rng = np.random.default_rng(seed)
    matrix, counts = views_of(passages, views, dim, rng)
    queries = matrix[rng.integers(len(matrix), size=questions)].astype(np.float32)
    queries += rng.standard_normal(queries.shape, np.float32) / np.sqrt(dim, dtype=np.float32)
    exact = None
    with tempfile.TemporaryDirectory() as temporary:
        given = Given(
            matrix,
            write_embeddings(Path(temporary) / "embeddings", matrix, counts),
            write_embeddings(Path(temporary) / "few", matrix[: counts[:FEW].sum()], counts[:FEW]),
            queries,
        )
        # The recall of other kinds is measured against the exact index, so it comes first, listed or not.
        for number, kind in enumerate(dict.fromkeys(["exact", *kinds])):
            settings = Index(kind=kind)
            folder = Path(temporary) / str(number)
            measured = measure_kind(given, settings, exact, folder, builds, searches, clock)
            if exact is None:
                exact = measured.found
            yield measured


def rows(size: Size) -> Iterator[Row]:
    """The rows of `make bench`: with one thread, processor time; approximate kinds beside the exact one."""
    passages, questions, builds = (2_000, 200, 1) if size == "quick" else (10_000, 500, 2)
    exact, kinds = None, ("exact", "compact", "tiny", "hnsw")
    with threads(1):
        for each in measure_kinds(passages, 9, 384, questions, kinds, 0, builds, 3, time.process_time):
            about = f"{each.kind} index of {passages:,} passages, {each.bytes_per_passage:,.0f} bytes each"
            name = "faiss alone" if each.factory else "a copy with its digest"
            alone = Contestant.of(each.alone, name, 1000)
            peer, bound = (alone, None) if each.factory else (None, alone)
            yield Row(f"build the {about}", "s", Contestant.of(each.builds, per=1000), peer, bound)
            times = each.searches
            words = f"search the {each.kind} index, {questions} together, recall@100 {each.recall[100]:.3f}"
            peer = Contestant.of(exact, "exact", questions) if exact else None
            yield Row(words, "ms per question", Contestant.of(times, per=questions), peer)
            exact = exact or times


def main(
    passages: Annotated[int, typer.Option(help="Passages.")] = 5_000,
    views: Annotated[int, typer.Option(help="Most views per passage; each passage has 1 to this many.")] = 9,
    dim: Annotated[int, typer.Option(help="Width of a view.")] = 384,
    questions: Annotated[int, typer.Option(help="Questions.")] = 500,
    kinds: Annotated[str, typer.Option(help="Kinds, separated by spaces.")] = "exact compact tiny hnsw",
    seed: Annotated[int, typer.Option(help="Seed of views and questions.")] = 0,
) -> None:
    """Prints a table of kinds of index over random views."""
    print(f"{passages:,} passages, 1 to {views} views of {dim} each, {questions:,} questions\n")
    print(
        "| kind | faiss | recall@10 | recall@100 | bytes per passage | build s | faiss alone, or a copy, s | questions/s |\n"
        + "|---" * 8
        + "|"
    )
    for each in measure_kinds(passages, views, dim, questions, kinds.split(), seed):
        print(
            f"| {each.kind} | {each.factory} | {each.recall[10]:.3f} | {each.recall[100]:.3f} | "
            f"{each.bytes_per_passage:,.0f} | {each.builds[0] / 1000:.2f} | {each.alone[0] / 1000:.2f} | {1000 * questions / each.searches[0]:,.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    typer.run(main)
