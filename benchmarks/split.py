"""The step `split` on SQuAD beside NLTK alone, which it calls, on the same passages (docs/data.md).

    MULTIVIEW_DATA=data python -m benchmarks.split --repeats 5

Bound: NLTK's tokenizer over all texts, which are in memory already. `split` also reads, checks and writes passages and
questions, from Parquet and from SQuAD's JSON, as one shard and as two. With one process, times are processor time, so
that other programs disturb little; with more they are wall time, and the bound is NLTK in as many processes. SQuAD has
five questions per passage, which one process reads and checks, so a larger collection is split too: SQuAD's passages,
repeated, with few questions. Its bound is one process's wall time divided by the number of processes.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.parquet as pq
import typer

from benchmarks.squad import repeated, split_into, split_settings, squad_passages
from benchmarks.table import Contestant, Goal, Row, Size, markdown, of_times, squad_folder
from benchmarks.timing import chosen_cores, in_turns
from multiview import environment
from multiview.config import Config
from multiview.data.sentences import splitter

BOUND = "NLTK alone"
FORMS = {"parquet": "Parquet", "json": "SQuAD's JSON"}
GROUP = 1000
"""Passages per task of a process."""
MANY = 100_000
"""Passages of the larger collection."""


def sentences(texts: list[str]) -> int:
    """The number of sentences of some texts."""
    split = splitter()
    return sum(len(list(split(text))) for text in texts)


def counted_in(texts: list[str], pool: Executor | None) -> int:
    """The number of sentences, counted in the processes of `pool`, or in this one."""
    if pool is None:
        return sentences(texts)
    groups = [texts[first : first + GROUP] for first in range(0, len(texts), GROUP)]
    return sum(pool.map(sentences, groups))


def measure(data: Path, form: str, shards: int, repeats: int, processes: int) -> Row:
    """The row of the step from files of one form into a number of shards: processor time of one process, else wall time."""
    os.environ[environment.OMP_NUM_THREADS] = str(processes)
    texts = pq.read_table(data / "passages.parquet")["text"].to_pylist()
    splitter()
    sentences(texts[:1])

    def whole() -> None:
        with tempfile.TemporaryDirectory() as folder:
            split_into(Path(folder), split_settings(data, form, shards))

    clock = time.process_time if processes == 1 else time.perf_counter
    with ProcessPoolExecutor(processes) if processes > 1 else nullcontext() as pool:
        contestants: dict[str, Callable[[], object]] = {
            "split": whole,
            BOUND: lambda: counted_in(texts, pool),
        }
        times = in_turns(contestants, repeats, clock)
    kind = "" if processes == 1 else f", {processes} processes, wall time"
    work = f"split {len(texts):,} passages from {FORMS[form]}, shards: {shards}{kind}"
    return of_times(work, "s", times, ours="split", bound=BOUND, per=1000, goal=Goal(of_bound=0.4))


def measure_many(data: Path, count: int, repeats: int, processes: int) -> Row:
    """The row of the step over `count` passages: wall time in `processes`, beside one's divided by them."""
    with tempfile.TemporaryDirectory() as given:
        source = Path(given) / "passages.parquet"
        passages = repeated(squad_passages(data), count)
        columns = ("id", "title", "text")
        pq.write_table(pa.table({name: [getattr(p, name) for p in passages] for name in columns}), source)
        questions = {"source": str(data / "dev.parquet"), "columns": {"positive_ids": "positive_passage_id"}}
        config = Config.partial({"corpus": {"source": str(source), "shards": 2}, "questions": questions})

        def whole(cores: int) -> None:
            with tempfile.TemporaryDirectory() as folder, chosen_cores(cores):
                split_into(Path(folder), config)

        splitter()
        contestants = {"one": partial(whole, 1), "several": partial(whole, processes)}
        times = in_turns(contestants, repeats, time.perf_counter)
    share = Contestant.of(times["one"], f"one process / {processes}", 1000 * processes)
    work = f"split {count:,} passages with few questions, {processes} processes, wall time"
    return Row(work, "s", Contestant.of(times["several"], per=1000), bound=share, goal=Goal(of_bound=0.85))


def rows(size: Size) -> Iterator[Row]:
    """The rows of `make bench`: one process and one shard, two shards, SQuAD's JSON, two processes, many passages."""
    data = squad_folder()
    yield measure(data, "parquet", 1, 1 if size == "quick" else 2, 1)
    if size == "whole":
        yield measure(data, "parquet", 2, 2, 1)
        yield measure(data, "json", 1, 2, 1)
        yield measure(data, "parquet", 2, 2, 2)
        yield measure_many(data, MANY, 2, 2)


def main(
    repeats: Annotated[int, typer.Option(min=1, help="Repeats of each.")] = 5,
    processes: Annotated[int, typer.Option(min=1, help="Processes; with one, times are processor time.")] = 1,
    forms: Annotated[list[str], typer.Option("--form", help="Forms of the files.")] = ["parquet", "json"],  # noqa: B006
    data: Annotated[Path, typer.Option(envvar=environment.DATA, help="Folder that holds squad/.")] = Path(
        "data"
    ),
) -> None:
    """Prints seconds per run, min / median / max."""
    made = (measure(data / "squad", form, shards, repeats, processes) for form in forms for shards in (1, 2))
    for line in markdown(made):
        print(line, flush=True)


if __name__ == "__main__":
    typer.run(main)
