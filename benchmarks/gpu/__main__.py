"""Prints the table of a GPU, each row as soon as it is measured (docs/performance.md).

    MULTIVIEW_DATA=data python -m benchmarks.gpu --minutes 3.5 --out gpu.md

What matters most comes first; parts that do not fit the time left are left out and named at the end. Models have
random weights in the shapes of MiniLM and BERT-base, which take the same time. Without a GPU everything runs on the
processor, which shows that it works, not how fast a GPU is.
"""

from __future__ import annotations

import gc
import os
import platform
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, NamedTuple

import torch
import typer
from transformers.utils.logging import disable_progress_bar, set_verbosity_error

from benchmarks.gpu.encoding import encoding
from benchmarks.gpu.equality import equality
from benchmarks.gpu.search import CORNERS, OTHERS, ceilings, rankings, searching, streamed
from benchmarks.gpu.sizes import BERT_SHAPE, DEVICE, MINILM_SHAPE, SIZES, Given, SizeName, given
from benchmarks.gpu.training import training
from benchmarks.machine import machine
from benchmarks.table import Row, lines, markdown

PACKAGES = ("transformers", "sentence-transformers", "tokenizers", "accelerate", "numpy", "pyarrow")


class Part(NamedTuple):
    """Some rows that are measured together."""

    name: str
    seconds: float
    """What it takes on an H100 at size whole; it does not begin with less time left."""
    rows: Callable[[Given], Iterator[Row | str]]


def parts(name: SizeName) -> list[Part]:
    """All parts, what matters most first; float16 is for GPUs."""
    size = SIZES[name]
    mini, uneven = partial(encoding, shape=MINILM_SHAPE), size.large._replace(uneven=True)
    found = [
        Part("the device's own speed", 5, ceilings),
        Part("encoding", 40, partial(mini, compute="bfloat16")),
        Part("training", 25, partial(training, shape=MINILM_SHAPE)),
        Part("search of SQuAD's size", 10, partial(searching, kind=size.squad, asked=CORNERS)),
        Part("search of many views", 40, partial(searching, kind=size.large, asked=CORNERS)),
        Part("encoding, BERT-base", 45, partial(encoding, shape=BERT_SHAPE, compute="bfloat16")),
        Part("training, BERT-base", 30, partial(training, shape=BERT_SHAPE)),
        Part("search of many uneven views", 30, partial(searching, kind=uneven, asked=CORNERS[:2])),
        Part("mining and evaluation", 40, rankings),
        Part("equality with the processor", 30, equality),
        Part("training in chunks", 25, partial(training, shape=MINILM_SHAPE, chunked=True)),
        Part(
            "encoding of many views", 30, partial(mini, compute="bfloat16", architecture="camvr", peers=False)
        ),
        Part("search of wide views", 40, partial(searching, kind=size.wide, asked=CORNERS)),
        Part("encoding, float16", 35, partial(mini, compute="float16")),
        Part("training of BERT-base in chunks", 30, partial(training, shape=BERT_SHAPE, chunked=True)),
        Part("further searches of SQuAD's size", 10, partial(searching, kind=size.squad, asked=OTHERS)),
        Part("further searches of many views", 40, partial(searching, kind=size.large, asked=OTHERS)),
        Part("search of views on the host", 30, partial(streamed, kind=size.large)),
        Part("encoding, BERT-base, float16", 45, partial(encoding, shape=BERT_SHAPE, compute="float16")),
        Part("further searches of wide views", 40, partial(searching, kind=size.wide, asked=OTHERS)),
    ]
    return [part for part in found if DEVICE == "cuda" or "float16" not in part.name]


@dataclass
class Report:
    """Prints lines, and appends them to a file, as soon as they are known: tables, and notes between them."""

    out: Path | None
    _in_table: bool = field(default=False)

    def line(self, *lines: str) -> None:
        print(*lines, sep="\n", flush=True)
        if self.out is not None:
            with self.out.open("a") as file:
                print(*lines, sep="\n", file=file)

    def show(self, found: Row | str) -> None:
        """Shows a row, below a header if a note came before it; or a note, as an item of a list."""
        if isinstance(found, str):
            self.line(*[""] * self._in_table, f"- {found}")
        else:
            self.line(*(lines([found]) if self._in_table else ["", *markdown([found])]))
        self._in_table = not isinstance(found, str)


def run(parts: list[Part], work: Given, report: Report, until: float) -> int:
    """Shows the rows of parts while there is time; returns the number of those that failed."""
    begun, left_out, failed = time.monotonic(), [], 0
    for part in parts:
        need = part.seconds if work.name == "whole" else part.seconds / 10 if work.name == "small" else 0
        if until - time.monotonic() < need:
            left_out.append(f"{part.name} ({need:.0f} s)")
            continue
        started = time.monotonic()
        try:
            for found in part.rows(work):
                report.show(found)
                if time.monotonic() > until:
                    left_out.append(f"the rest of {part.name}")
                    break
        except (Exception, SystemExit) as error:
            failed += 1
            frame = traceback.extract_tb(error.__traceback__)[-1]
            words = " ".join(str(error).split())[:300]
            report.show(
                f"{part.name} failed: {type(error).__name__}: {words} ({frame.filename}:{frame.lineno})"
            )
            traceback.print_exc()
        finally:
            gc.collect()
            if DEVICE == "cuda":
                torch.cuda.empty_cache()
        report.show(
            f"{part.name} took {time.monotonic() - started:.0f} s; {time.monotonic() - begun:.0f} s so far"
        )
    if left_out:
        report.show(f"left out, for want of time: {', '.join(left_out)}")
    return failed


def described() -> Iterator[str]:
    """The card, the processor and the packages."""
    if DEVICE == "cuda":
        card = torch.cuda.get_device_properties(0)
        yield f"{card.name}, {card.total_memory / 2**30:.0f} GiB, CUDA {torch.version.cuda}; {machine()}"
    else:
        yield f"no GPU: all of this ran on the processor; {machine()}"
    yield ", ".join(f"{name} {_version(name)}" for name in PACKAGES) + f", Python {platform.python_version()}"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


def main(
    size: Annotated[SizeName, typer.Option(help="tiny: seconds on a processor; small; whole.")] = "whole",
    minutes: Annotated[float, typer.Option(help="Minutes after which nothing is begun.")] = 8,
    only: Annotated[
        list[str] | None, typer.Option(metavar="WORD", help="Parts with a word in their names; repeatable.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File that the same lines are appended to.")] = None,
    tokenizer: Annotated[
        Path | None, typer.Option(help="Folder with a tokenizer; MiniLM's package is not asked then.")
    ] = None,
) -> None:
    """Prints rows of min / median / max over repeats, ours beside peer and bound, with ratios of medians."""
    until = time.monotonic() + 60 * minutes
    # It would slow down the peers, which tokenise in threads, and not us, who do so in processes.
    os.environ.pop("TOKENIZERS_PARALLELISM", None)
    disable_progress_bar()
    set_verbosity_error()
    warnings.filterwarnings("ignore")
    report = Report(out)
    report.line(*described())
    chosen = [part for part in parts(size) if not only or any(word in part.name for word in only)]
    with given(size, tokenizer) as work:
        failed = run(chosen, work, report, until)
    if failed:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
