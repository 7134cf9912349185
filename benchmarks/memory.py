"""Peak memory of the steps by the size of the corpus (docs/search.md).

    MULTIVIEW_DATA=data python -m benchmarks.memory --sizes 5000,20958,100000

Passages are SQuAD's, over and over where more are asked for. `encode` has a model of one layer of width 384 with random
weights; `index`, `mine` and `evaluate` have eight random vectors per passage, as MVR makes. Inputs are written and each step
runs in a process of its own, which reads its anonymous memory every few milliseconds: what the step holds itself.
Pages of mapped files, such as the views of an exact index, are not counted, since the system takes them back whenever
it needs memory, nor are the processes that help `split`, which hold a few texts each. Figures are above the memory before
the step began, all of its modules loaded. `evaluate` runs the analyses that search and read texts; those that encode
passages hold a batch besides.
"""

from __future__ import annotations

import itertools
import multiprocessing
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer

from benchmarks.index_kinds import write_embeddings
from benchmarks.random_inputs import one_layer_model, random_views, write_index
from benchmarks.squad import squad_passages, squad_questions, write_passages
from benchmarks.table import Contestant, Goal, Row, Size, squad_folder
from multiview import environment
from multiview.artifacts.staged import Recorded, Staged
from multiview.config import Config, Corpus, Encode, Evaluation, Index, Mining, Questions
from multiview.data.questions import write_questions
from multiview.steps.context import StepContext
from multiview.steps.events import NoEvents
from multiview.steps.table import STEPS

Result = TypeVar("Result")

MEASURED = ("split", "encode", "index", "mine", "evaluate")
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
    asked = {"source": str(folder / "questions.parquet"), "columns": {"positive_ids": "positive_passage_id"}}
    sections = {
        "corpus": Corpus(source=(str(folder / "corpus.parquet"),)),
        "questions": Questions.model_validate(asked if step == "split" else {}),
        "encode": Encode(device="cpu"),
        "index": Index(),
        "mining": Mining(with_bm25=False),
        "evaluation": Evaluation(analyses=ANALYSES),
    }
    given = {name: Staged(folder / name, MODEL) for name in ("passages", "questions", "model", "index")}
    inputs = {
        "split": {},
        "encode": {name: given[name] for name in ("passages", "model")},
        "index": {
            "model": Recorded(MODEL),
            "passages": Recorded(MODEL),
            "embeddings": [Staged(folder / "embeddings", MODEL)],
        },
        "mine": given,
        "evaluate": given | {"train_questions": given["questions"]},
    }[step]
    outputs = {kind: folder / "out" / step / kind for kind in STEPS[step].outputs}
    for output in outputs.values():
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir(parents=True)
    return StepContext(Config.partial(sections), inputs, outputs, NoEvents())


def measured(step: str, folder: Path) -> int:
    """The peak of a step, which is run twice: at first on a corpus of few passages, which loads all of its modules."""
    function = STEPS[step].function()
    function(context(step, folder / "small"))
    given = context(step, folder / "whole")
    return peak(lambda: function(given))


def write_inputs(folder: Path, data: Path, size: int, count: int) -> None:
    """Writes what the steps read, for a corpus of `size` passages and `count` questions."""
    folder.mkdir()
    squad = squad_passages(data)
    copies = (replace(p, id=f"{p.id}-{n}" if n else p.id) for n in itertools.count() for p in squad)
    passages = list(itertools.islice(copies, size))
    one_layer_model(folder / "model", "mvr", VIEWS)
    counts = np.full(size, VIEWS)
    views = random_views(passages, counts, 384, np.random.default_rng(0))
    write_passages(folder / "passages", passages)
    write_embeddings(folder / "embeddings", views, counts)
    write_index(folder / "index", passages, counts, views, MODEL)
    ids = {passage.id for passage in passages}
    drawn = (
        question for question in squad_questions(data, "train", 1 << 30, 0) if question.positive_ids[0] in ids
    )
    questions = list(itertools.islice(drawn, count))
    (folder / "questions").mkdir()
    write_questions(questions, folder / "questions")
    columns = ("id", "title", "text")
    corpus = {name: [getattr(passage, name) for passage in passages] for name in columns}
    pq.write_table(pa.table(corpus), folder / "corpus.parquet", row_group_size=1000)
    asked = {
        "qid": [question.qid for question in questions],
        "question": [question.question for question in questions],
        "answers": [question.answers for question in questions],
        "positive_passage_id": [question.positive_ids[0] for question in questions],
    }
    pq.write_table(pa.table(asked), folder / "questions.parquet")


def peaks_of(data: Path, sizes: Sequence[int], questions: int) -> dict[str, list[int]]:
    """The peaks of each step in bytes, one per size. This process holds no passages."""
    peaks: dict[str, list[int]] = {step: [] for step in MEASURED}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        alone(partial(write_inputs, folder / "small", data, 1000, 20))
        for size in sizes:
            alone(partial(write_inputs, folder / "whole", data, size, questions))
            for step, found in peaks.items():
                found.append(alone(partial(measured, step, folder)))
                print(f"{step}, {size:,} passages: {found[-1] / 1e6:.0f} MB", file=sys.stderr, flush=True)
            shutil.rmtree(folder / "whole")
            shutil.rmtree(folder / "small" / "out")
    return peaks


def alone(run: Callable[[], Result]) -> Result:
    """What `run` returns in a process of its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(run).result()


def rows(size: Size) -> Iterator[Row]:
    """The rows of `make bench`: each peak, which should not grow with the corpus; the bound is that of the fewest passages."""
    sizes = (1000, 5000) if size == "quick" else (5000, 20_958, 100_000)
    for step, peaks in peaks_of(squad_folder(), sizes, 300).items():
        least = Contestant((peaks[0] / 1e6,), f"{sizes[0]:,} passages")
        for passages, each in zip(sizes[1:], peaks[1:], strict=True):
            work = f"peak memory of {step} above its start, {passages:,} passages"
            yield Row(work, "MB", Contestant((each / 1e6,)), bound=least, goal=Goal(of_bound=0.8))


def main(
    sizes: Annotated[str, typer.Option(help="Passages, separated by commas.")] = "5000,20958,100000",
    questions: Annotated[int, typer.Option(help="Questions.")] = 300,
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
