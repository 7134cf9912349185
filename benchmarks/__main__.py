"""All benchmarks in one table, on a quiet machine (docs/performance.md).

    python -m benchmarks --size quick

Each benchmark runs in its own process, once other programs leave the processors alone. (The load average does not
tell: it would count the previous benchmark for a minute.) Rows that were measured while others used the processors have
a mark. A benchmark that lacks a package or data says so in its row, and the others run.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from typing import Annotated

import typer

from benchmarks.machine import QUIET, Others, machine, wait_until_quiet
from benchmarks.table import Contestant, Row, Size, lines, markdown, prepare, rows_of

BENCHMARKS = (
    "encoding",
    "training",
    "training_run",
    "search",
    "index_kinds",
    "mining",
    "bm25",
    "split",
    "evaluation",
    "memory",
    "staging",
    "refresh",
    "serving",
    "commands",
)
"""Modules of this package with `rows(size)`, in the order of the table."""
MARK = "\\*"
"""Follows the work of a row that was measured beside other programs."""


def main(
    size: Annotated[
        Size, typer.Option(help="quick: within 5 minutes on two cores; whole: within 30.")
    ] = "whole",
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help=f"One of {', '.join(BENCHMARKS)}; repeatable.")
    ] = None,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait for a quiet machine before each benchmark.")
    ] = 30,
) -> None:
    """Prints one table of all benchmarks as they end: min / median / max over repeats, and ratios of medians."""
    begun, disturbed, failed = time.monotonic(), [], []
    chosen = only or BENCHMARKS
    print(machine(), "", *markdown([]), sep="\n", flush=True)
    for name in chosen:
        wait_until_quiet(wait)
        print(f"{time.monotonic() - begun:5.0f} s  {name}", file=sys.stderr, flush=True)
        others = Others()
        with ProcessPoolExecutor(1, get_context("spawn"), prepare) as pool:
            try:
                rows = pool.submit(rows_of, name, size).result()
            except Exception as error:
                rows = [Row(name, "", Contestant(not_run=str(error) or type(error).__name__))]
                failed.append(name)
        if (share := others.share()) > QUIET and any(row.ours.values for row in rows):
            disturbed.append(f"{name} {share:.0%}")
            rows = [replace(row, work=f"{row.work} {MARK}") for row in rows]
        if rows:
            print(*lines(rows), sep="\n", flush=True)
    if disturbed:
        print(f"\n{MARK} Meanwhile other programs used the processors: {', '.join(disturbed)}.")
    print(f"\n{time.monotonic() - begun:.0f} s in all")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
