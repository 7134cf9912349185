"""The `split` step on SQuAD beside NLTK alone on the same passages, which is the bound (docs/data.md).

    MULTIVIEW_DATA=data python -m benchmarks.split --repeats 5

Bound: NLTK's own tokenizer over all texts, which are in memory already. `split` reads passages and questions besides,
checks and writes them, from Parquet and from SQuAD's JSON, as one shard and as two. With one process times are processor
time, so that other programs disturb little; with more they are wall time, and the bound is NLTK in as many processes.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Annotated

import pyarrow.parquet as pq
import typer

from benchmarks.squad_split import settings, split_into
from benchmarks.timing import header, in_turns, row
from multiview import environment
from multiview.data.sentences import tokenizer

GROUP = 1000
"""Passages per task of a process."""


@cache
def nltk_alone() -> Callable[[str], object]:
    """NLTK's own tokenizer, without what multiview adds to it."""
    from nltk.tokenize.punkt import PunktTokenizer

    return PunktTokenizer("english").span_tokenize


def sentences(texts: list[str]) -> int:
    """The number of sentences of some texts."""
    return sum(len(list(nltk_alone()(text))) for text in texts)  # pyright: ignore[reportArgumentType]


def in_processes(texts: list[str], processes: int) -> int:
    """The number of sentences, counted in several processes; in this one if there is only one."""
    if processes == 1:
        return sentences(texts)
    groups = [texts[first : first + GROUP] for first in range(0, len(texts), GROUP)]
    with ProcessPoolExecutor(processes) as pool:
        return sum(pool.map(sentences, groups))


def main(
    repeats: Annotated[int, typer.Option(min=1, help="Repeats of each.")] = 5,
    processes: Annotated[int, typer.Option(min=1, help="Processes; with one, times are processor time.")] = 1,
    forms: Annotated[list[str], typer.Option("--form", help="Forms of the files.")] = ["parquet", "json"],  # noqa: B006
    data: Annotated[Path, typer.Option(envvar=environment.DATA, help="Folder that holds squad/.")] = Path(
        "data"
    ),
) -> None:
    """Prints milliseconds per run, min / median / max."""
    os.environ[environment.OMP_NUM_THREADS] = str(processes)
    clock = time.process_time if processes == 1 else time.perf_counter
    texts = pq.read_table(data / "squad" / "passages.parquet")["text"].to_pylist()
    tokenizer()
    sentences(texts[:1])

    def whole(form: str, shards: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            split_into(Path(folder), settings(data, form, shards))

    print(f"{len(texts):,} passages, {processes} process{'es' * (processes > 1)}\n")
    print(header("files, shards", ["split", "NLTK alone"]))
    for form in forms:
        for shards in (1, 2):
            contestants: dict[str, Callable[[], object]] = {
                "split": lambda form=form, shards=shards: whole(form, shards),
                "NLTK alone": lambda: in_processes(texts, processes),
            }
            print(row(f"{form}, {shards}", in_turns(contestants, repeats, clock)), flush=True)


if __name__ == "__main__":
    typer.run(main)
