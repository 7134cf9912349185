"""BM25 on SQuAD: index, search and the search for answers in the hits, beside bm25s alone (docs/mining.md).

    MULTIVIEW_DATA=data python -m benchmarks.bm25 --questions 1000

Peer: bm25s with the same tokenizer and settings, `index` over texts in memory, and `retrieve`. Ours reads the passages
from the shards of `split`, and breaks ties by the smaller id. No peer checks whether a hit holds an answer.
Contestants take turns. With one thread, times are the process's own, so that other programs disturb little.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import bm25s
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer

from benchmarks.squad import split_into, split_settings
from benchmarks.table import Contestant, Goal, Row, Size, markdown, of_times, squad_folder
from benchmarks.timing import chosen_cores, in_turns
from multiview import environment
from multiview.config import Bm25
from multiview.data.passages import ROW_GROUP, PassageLookup, read_passages, shard_files
from multiview.data.questions import Question, read_questions
from multiview.errors import InputError
from multiview.index.bm25 import Bm25Index, tokenizer
from multiview.negatives.filters import AnswerHits

ENGLISH = "english"
PEER = "bm25s"
PROCESSES = THREADS = 2


class Peer:
    """bm25s, with our tokenizer and settings."""

    def __init__(self, texts: list[str], section: Bm25) -> None:
        self._tokenizer = tokenizer(ENGLISH)
        ids = self._tokenizer.tokenize(texts, update_vocab=True, show_progress=False, allow_empty=False)
        self._index = bm25s.BM25(k1=section.k1, b=section.b, method="lucene")
        corpus: Any = (ids, self._tokenizer.get_vocab_dict())
        self._index.index(corpus, create_empty_token=False, show_progress=False)

    def search(self, questions: list[str], k: int, threads: int) -> object:
        ids = self._tokenizer.tokenize(questions, update_vocab=False, show_progress=False, allow_empty=False)
        workers = threads if threads > 1 else 0
        return self._index.retrieve(
            ids,  # pyright: ignore[reportArgumentType]
            k=k,
            show_progress=False,
            n_threads=workers,
        )


def measure(
    data: Path, questions: int, repeats: int, threads: int, clock: Callable[[], float]
) -> Iterator[Row]:
    """Yields rows of the index, of the search and of the search for answers in its hits."""
    section = Bm25()
    with tempfile.TemporaryDirectory() as folder:
        outputs = split_into(Path(folder), split_settings(data, "parquet", 2))
        everyone = read_questions(outputs["train_questions"])
        asked = everyone[:: max(1, len(everyone) // questions)][:questions]
        texts = [f"{passage.title} {passage.text}" for passage in read_passages(outputs["passages"])]
        words = [question.question for question in asked]
        ours, peer = Bm25Index.of(read_passages(outputs["passages"]), section), Peer(texts, section)
        hits = ours.search(words, section.depth).passages
        builds: dict[str, Callable[[], object]] = {
            "ours": lambda: Bm25Index.of(read_passages(outputs["passages"]), section),
            PEER: lambda: Peer(texts, section),
        }
        searches: dict[str, Callable[[], object]] = {
            "ours": lambda: ours.search(words, section.depth),
            PEER: lambda: peer.search(words, section.depth, threads),
        }

        def answers() -> object:
            return AnswerHits(asked, ours.ids, PassageLookup(outputs["passages"]), "string").holds(hits)

        for work, contestants, goal in (
            (f"BM25's index of {len(texts):,} passages", builds, Goal(times_peer=0.9)),
            (f"BM25, {len(asked):,} questions, {section.depth} hits", searches, Goal(times_peer=0.9)),
            (f"answers in hits of {len(asked):,} questions", {"ours": answers}, Goal(most=0.3)),
        ):
            times = in_turns(contestants, repeats, clock)
            rival = PEER if PEER in times else None
            yield of_times(work, "s", times, ours="ours", peer=rival, per=1000, goal=goal)
        if threads == 1:
            yield in_threads(ours, peer, words, section.depth, repeats)


def in_threads(ours: Bm25Index, peer: Peer, questions: list[str], k: int, repeats: int) -> Row:
    """The row of a search in two threads: wall time, beside half the time of one thread."""

    def search(threads: int) -> None:
        with chosen_cores(threads):
            ours.search(questions, k)

    contestants: dict[str, Callable[[], object]] = {
        "one": lambda: search(1),
        "two": lambda: search(THREADS),
        PEER: lambda: peer.search(questions, k, THREADS),
    }
    times = in_turns(contestants, repeats, time.perf_counter)
    return Row(
        f"BM25, {len(questions):,} questions, {k} hits, {THREADS} threads, wall time",
        "s",
        Contestant.of(times["two"], per=1000),
        peer=Contestant.of(times[PEER], f"{PEER}, {THREADS} threads", 1000),
        bound=Contestant.of(times["one"], "half of one thread", 1000 * THREADS),
        goal=Goal(times_peer=0.9),
    )


@dataclass(frozen=True)
class Hits:
    """The hits of some questions among the passages of a shard."""

    found: np.ndarray
    """[q, k] int64: rows of `ids`."""
    ids: pa.Array
    shard: Path
    groups: int
    """Number of the shard's row groups with hits, counted from the first."""
    questions: Sequence[Question]

    @classmethod
    def drawn(cls, folder: Path, data: Path, count: int, k: int) -> Hits:
        """Hits in random rows of whole row groups, as many per process: it measures how they share passages."""
        outputs = split_into(folder, split_settings(data, "parquet", 1))
        (shard,) = shard_files(outputs["passages"])
        ids = pq.read_table(shard, columns=["id"])["id"].combine_chunks()
        groups = len(ids) // ROW_GROUP // PROCESSES * PROCESSES
        if not groups:
            raise InputError(
                f"{data}: {len(ids)} passages, fewer than {PROCESSES} row groups of {ROW_GROUP:,}"
            )
        found = np.random.default_rng(0).integers(groups * ROW_GROUP, size=(count, k))
        return cls(found, ids, shard, groups, read_questions(outputs["train_questions"])[:count])

    def among(self, part: int, parts: int) -> np.ndarray:
        """The hits in every `parts`-th row group of the shard from the group `part` on, and -1 for others."""
        shared = np.arange(len(self.ids)) // ROW_GROUP % parts == part
        return np.where(shared[self.found], self.found, -1)

    def answers(self, part: int, parts: int, found: np.ndarray) -> None:
        """Asks whether the hits `found` (see `among`) hold answers."""
        AnswerHits(self.questions, self.ids, PassageLookup(self.shard.parent), "string").holds(found)


HELD: dict[tuple[int, int], Callable[[], None]] = {}
"""What a process may be asked to do, by part and number of parts."""


def hold(hits: Hits) -> None:
    """Gives this process the hits of each part that it may be asked about, and asks once, to warm up."""
    for parts in (1, PROCESSES):
        for part in range(parts):
            HELD[part, parts] = partial(hits.answers, part, parts, hits.among(part, parts))
            HELD[part, parts]()


def answers_in(part: int, parts: int) -> None:
    """Looks for answers in the hits of one part."""
    HELD[part, parts]()


def in_processes(data: Path, questions: int, repeats: int) -> Row:
    """The row of answers in hits in two processes, each with half of the passages: wall time, beside half of one's."""
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(
            PROCESSES,
            get_context("spawn"),
            hold,
            (Hits.drawn(Path(folder), data, questions, 200),),
        ) as pool,
    ):
        contestants: dict[str, Callable[[], object]] = {
            "one": lambda: list(pool.map(answers_in, [0], [1])),
            "two": lambda: list(pool.map(answers_in, range(PROCESSES), [PROCESSES] * PROCESSES)),
        }
        times = in_turns(contestants, repeats, time.perf_counter)
    alone = Contestant.of(times["one"], "half of one process", 1000 * PROCESSES)
    work = f"answers in 200 hits of {questions:,} questions, {PROCESSES} processes, wall time"
    return Row(work, "s", Contestant.of(times["two"], per=1000), bound=alone, goal=Goal(of_bound=0.85))


def rows(size: Size) -> Iterator[Row]:
    """The rows of `make bench`: with one thread, processor time."""
    os.environ[environment.OMP_NUM_THREADS] = "1"
    yield from measure(squad_folder(), 1000, 1 if size == "quick" else 3, 1, time.process_time)
    if size == "whole":
        yield in_processes(squad_folder(), 5000, 5)


def main(
    questions: Annotated[int, typer.Option(min=1, help="Questions.")] = 1000,
    repeats: Annotated[int, typer.Option(min=1, help="Repeats of each.")] = 5,
    threads: Annotated[int, typer.Option(min=1, help="Threads; with one, times are processor time.")] = 1,
    data: Annotated[Path, typer.Option(envvar=environment.DATA, help="Folder that holds squad/.")] = Path(
        "data"
    ),
) -> None:
    """Prints seconds, min / median / max."""
    os.environ[environment.OMP_NUM_THREADS] = str(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    print(*markdown(measure(data / "squad", questions, repeats, threads, clock)), sep="\n")


if __name__ == "__main__":
    typer.run(main)
