"""All benchmarks in one table, on a quiet machine (docs/performance.md).

    python -m benchmarks --size quick

Each benchmark has a process of its own, which waits until other programs leave the processors alone: not by the load
average, which would count the benchmark before it for a minute. A benchmark that lacks a package or data says so in its
row, and the others run.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Annotated

import typer

from benchmarks.machine import QUIET, machine, wait_until_quiet
from benchmarks.table import Contestant, Row, Size, markdown, rows_of

BENCHMARKS = ("search", "training", "index_kinds", "refresh")
"""Modules of this package with `rows(size)`, in the order of the table."""


def main(
    size: Annotated[
        Size, typer.Option(help="quick: within 5 minutes on two cores; whole: within 30.")
    ] = "whole",
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help=f"One of {', '.join(BENCHMARKS)}; repeatable.")
    ] = None,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait for a quiet machine before each benchmark.")
    ] = 60,
) -> None:
    """Prints one table of all benchmarks: min / median / max over repeats, and ratios of medians."""
    begun, rows, disturbed, failed = time.monotonic(), [], [], []
    for name in only or BENCHMARKS:
        share = wait_until_quiet(wait)
        if share > QUIET:
            disturbed.append(f"{name} ({share:.0%} of the processors)")
        print(f"{time.monotonic() - begun:5.0f} s  {name}", file=sys.stderr, flush=True)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            try:
                rows += pool.submit(rows_of, name, size).result()
            except Exception as error:
                rows.append(Row(name, "", Contestant(not_run=f"{type(error).__name__}: {error}")))
                failed.append(name)
    print(machine())
    if disturbed:
        print(f"Other programs were at work before {', '.join(disturbed)}.")
    print("", *markdown(rows), "", f"{time.monotonic() - begun:.0f} s in all", sep="\n")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
