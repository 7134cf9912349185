"""Exact search of views that stay in a store, beside a copy of them to the local disk (docs/index-kinds.md).

    python -m benchmarks.streaming --views 400000

The store is a folder, read in parts like a bucket but without a network: this measures the reading, the checking of
blocks and the search itself. Peer: the views are copied, checked and then searched, as in a step whose scratch folder
has room. Bound: the search of the copy alone. Views are random (see `benchmarks.search`). Memory is what is above the
start, beside four blocks of views.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.memory import peak
from benchmarks.search import SPREAD, Searched
from benchmarks.table import Contestant, Goal, Row, Size, markdown, of_times
from benchmarks.timing import in_turns
from multiview.artifacts.record import file_sha256
from multiview.artifacts.staging import StoredFile
from multiview.artifacts.store import LocalStore
from multiview.encoding.embeddings import VIEWS_FILE
from multiview.index.build import BLOCK_BYTES, StoredViewsWriter
from multiview.index.exact import ExactSearch
from multiview.index.stored_views import HELD, open_views

DIM = 384
QUESTIONS, DEPTH = 1000, 100
STREAMED, COPIED, MAPPED = "streamed", "copied and searched", "search of the copy"


def measure(views: int, repeats: int) -> Iterator[Row]:
    """The rows of time and of memory."""
    with tempfile.TemporaryDirectory() as temporary:
        folder, copy = Path(temporary), Path(temporary) / "copy"
        made = Searched.random(views, DIM, SPREAD, 0)
        matrix, offsets = made.views, made.offsets
        queries = matrix[:: views // QUESTIONS][:QUESTIONS].astype(np.float32)
        with StoredViewsWriter(folder / VIEWS_FILE, DIM) as stored:
            stored.write(matrix)
        header = {"views": views, "dim": DIM, "rows_per_block": stored.rows_per_block}
        header |= {"block_sha256": stored.block_sha256}
        file = StoredFile(LocalStore(folder), VIEWS_FILE, matrix.nbytes)
        del matrix, made

        def search(streamed: StoredFile | None) -> None:
            matrix = open_views(copy, header, streamed)
            ties = np.arange(len(offsets))
            ExactSearch(matrix, offsets, ties, stored.longest_view).top(queries, DEPTH)

        def copied() -> None:
            shutil.copy(folder / VIEWS_FILE, copy)
            file_sha256(copy)
            search(None)

        contestants = {COPIED: copied, STREAMED: lambda: search(file), MAPPED: lambda: search(None)}
        times = in_turns(contestants, repeats, time.perf_counter)
        above, _ = peak(lambda: search(file))
    work = f"exact top-{DEPTH} of {QUESTIONS} questions over {views:,} views of {DIM} in a store"
    yield of_times(f"{work}, without a copy", "ms", times, ours=STREAMED, peer=COPIED, bound=MAPPED)
    held = Contestant((HELD * BLOCK_BYTES / 1e6,), f"{HELD} blocks")
    yield Row(
        f"memory above the start of the same, of {file.bytes / 1e6:,.0f} MB",
        "MB",
        Contestant((above / 1e6,)),
        bound=held,
        goal=Goal(most=1.5 * HELD * BLOCK_BYTES / 1e6),
    )


def rows(size: Size) -> Iterator[Row]:
    """The rows of `make bench`."""
    yield from measure(400_000, 3) if size == "whole" else []


def main(
    views: Annotated[int, typer.Option(min=QUESTIONS, help="Number of views.")] = 400_000,
    repeats: Annotated[int, typer.Option(min=1, help="Repeats of each.")] = 3,
) -> None:
    """Prints milliseconds and megabytes, min / median / max."""
    for line in markdown(measure(views, repeats)):
        print(line, flush=True)


if __name__ == "__main__":
    typer.run(main)
