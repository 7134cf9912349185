"""BM25 on SQuAD: index, search and the search for answers in the hits, beside bm25s alone (docs/mining.md).

    MULTIVIEW_DATA=data python -m benchmarks.bm25 --questions 1000

Peer: bm25s with the same tokenizer and settings, `index` over texts in memory, and `retrieve`. Ours reads the passages
from the shards of `split`, and breaks ties by the smaller id. No peer asks whether a hit holds an answer. Those that are
compared take turns. With one thread times are the process's own, so that other programs disturb little.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import bm25s
import typer

from benchmarks.squad_split import settings, split_into
from benchmarks.timing import header, in_turns, row
from multiview import environment
from multiview.config import Bm25
from multiview.data.passages import read_passages
from multiview.data.questions import read_questions
from multiview.negatives.bm25 import Bm25Index, tokenizer
from multiview.negatives.filtering import answer_holding

ENGLISH = "english"


class Peer:
    """bm25s, with the tokenizer and the settings that ours has."""

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


def main(
    questions: Annotated[int, typer.Option(min=1, help="Questions.")] = 1000,
    repeats: Annotated[int, typer.Option(min=1, help="Repeats of each.")] = 5,
    threads: Annotated[int, typer.Option(min=1, help="Threads; with one, times are processor time.")] = 1,
    data: Annotated[Path, typer.Option(envvar=environment.DATA, help="Folder that holds squad/.")] = Path(
        "data"
    ),
) -> None:
    """Prints milliseconds, min / median / max."""
    os.environ[environment.OMP_NUM_THREADS] = str(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    section = Bm25()
    with tempfile.TemporaryDirectory() as folder:
        outputs = split_into(Path(folder), settings(data, "parquet", 2))
        everyone = read_questions(outputs["train_questions"])
        asked = everyone[:: max(1, len(everyone) // questions)][:questions]
        texts = [f"{passage.title} {passage.text}" for passage in read_passages(outputs["passages"])]
        words = [question.question for question in asked]
        ours, peer = Bm25Index(read_passages(outputs["passages"]), section), Peer(texts, section)
        hits = ours.search(words, section.depth).passages
        builds: dict[str, Callable[[], object]] = {
            "ours": lambda: Bm25Index(read_passages(outputs["passages"]), section),
            "bm25s": lambda: Peer(texts, section),
        }
        searches: dict[str, Callable[[], object]] = {
            "ours": lambda: ours.search(words, section.depth),
            "bm25s": lambda: peer.search(words, section.depth, threads),
        }

        def answers() -> object:
            return answer_holding(hits, ours.ids, read_passages(outputs["passages"]), asked, "string")

        print(f"{len(texts):,} passages, {len(asked):,} questions, {section.depth} hits, {threads} threads\n")
        print(header("work", ["ours", "bm25s"]))
        print(row("index", in_turns(builds, repeats, clock)), flush=True)
        print(row("search", in_turns(searches, repeats, clock)), flush=True)
        print(row("answers in hits", in_turns({"ours": answers}, repeats, clock)), flush=True)


if __name__ == "__main__":
    typer.run(main)
