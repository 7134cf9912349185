"""Peak memory of the steps by the size of the corpus, beside the estimate of `multiview plan` (docs/performance.md).

    MULTIVIEW_DATA=data python -m benchmarks.memory --passages 20000,100000,500000

Passages are SQuAD's, repeated if more are asked for. `split` and `bm25-negatives` read only texts; `encode` has a model
of one layer of width 64 with random weights; `index`, `mine` and `evaluate` have eight random vectors per passage, as
MVR makes. Each step runs in its own process, which reads its anonymous memory every few milliseconds: what the step
itself holds. Not counted are pages of mapped files, such as an exact index's views, which the system takes back when it
needs memory; nor the processes that help `split`, which hold a few texts each. The whole is that memory plus libraries'
pages; the part above the start, when all of the step's modules are loaded, is what may grow with the corpus.
`evaluate` runs the analyses that search and read texts; those that encode passages also hold a batch. With `--words`,
only the first words of passages are kept, so that `encode` takes less time: it holds the same per passage, but smaller
batches of texts.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer

from benchmarks.squad import repeated, squad_passages, squad_questions, write_passages
from benchmarks.table import Contestant, Goal, Row, Size, squad_folder
from multiview import environment
from multiview.artifacts.record import Reference
from multiview.artifacts.staging import LocalArtifact
from multiview.config import Config
from multiview.config.overrides import validate
from multiview.data.questions import write_questions
from multiview.encoding.embeddings import VIEWS_FILE
from multiview.steps.context import StepContext
from multiview.steps.events import Events
from multiview.steps.table import STEPS

Result = TypeVar("Result")

MEASURED = ("split", "bm25-negatives", "encode", "index", "mine", "evaluate")
VIEWS = 8
WIDTH = 64
"""Width of the model and of the views; memory hardly depends on it, but disk space does."""
MODEL = "random"
ANALYSES = ("each_view", "first_views", "usage", "cosine", "training_answers")
STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class Peak:
    """The most memory of a process while a step ran, in bytes."""

    above: int
    """Anonymous memory above that at the step's beginning."""
    whole: int
    """All anonymous memory, and the pages of libraries."""
    stated: float
    """The estimate by `multiview plan`."""


def held(kind: Literal["RssAnon", "RssFile"]) -> int:
    """Bytes of anonymous memory or of mapped files that this process has in memory."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(kind))
    return 1024 * int(line.split()[1])


def peak(run: Callable[[], object]) -> tuple[int, int]:
    """The most memory while `run` runs, as `above` and `whole` of a `Peak`."""
    begun, libraries, highest, done = held("RssAnon"), held("RssFile"), [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.003):
            highest[0] = max(highest[0], held("RssAnon"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        run()
    finally:
        done.set()
        watcher.join()
    most = max(highest[0], held("RssAnon"))
    return most - begun, most + libraries


def settings(folder: Path, step: str) -> Config:
    """The settings of all steps."""
    asked = {"source": str(folder / "questions.parquet"), "columns": {"positive_ids": "positive_passage_id"}}
    return validate(
        {
            "corpus": {"source": str(folder / "corpus.parquet")},
            "questions": asked if step == "split" else {},
            "model": {"architecture": "mvr", "views": VIEWS},
            "encode": {"device": "cpu"},
            "mining": {"with_bm25": False},
            "evaluation": {"analyses": ANALYSES},
        }
    )


def stated(steps: Sequence[str], folder: Path) -> list[float]:
    """The bytes that `multiview plan` states for each of some steps with the inputs in a folder."""
    # Imported only here, so that the measuring processes hold nothing but what the step imports.
    from multiview.plans.estimate import cost_of
    from multiview.plans.scenario import ModelShape, Scenario

    passages = pq.read_metadata(folder / "corpus.parquet").num_rows
    sample = pq.ParquetFile(folder / "corpus.parquet").read_row_group(0, ["text"])["text"].to_pylist()
    questions = pq.read_metadata(folder / "questions.parquet").num_rows
    words = sum(len(text.split()) for text in sample) / len(sample)
    shape = ModelShape(1, WIDTH, 4 * WIDTH)
    scenario = Scenario(passages, words, questions, questions, shape, cores=2)
    return [cost_of(step, replace(scenario, config=settings(folder, step))).memory for step in steps]


def context(step: str, folder: Path) -> StepContext:
    """What a step is given; its outputs go into the folder `out`."""
    given = {
        name: LocalArtifact(folder / name, MODEL) for name in ("passages", "questions", "model", "index")
    }
    inputs = {
        "split": {},
        "bm25-negatives": {name: given[name] for name in ("passages", "questions")},
        "encode": {name: given[name] for name in ("passages", "model")},
        "index": {
            "model": Reference(address="", digest=MODEL),
            "passages": Reference(address="", digest=MODEL),
            "embeddings": [LocalArtifact(folder / "embeddings", MODEL)],
        },
        "mine": given,
        "evaluate": given | {"train_questions": given["questions"]},
    }[step]
    outputs = {kind: folder / "out" / step / kind for kind in STEPS[step].outputs}
    for output in outputs.values():
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir(parents=True)
    return StepContext(settings(folder, step), inputs, outputs, Events())


def measured(step: str, folder: Path) -> tuple[int, int]:
    """The peak of a step, which first runs on a corpus of few passages, so that all of its modules are loaded."""
    function = STEPS[step].function()
    function(context(step, folder / "small"))
    given = context(step, folder / "whole")
    return peak(lambda: function(given))


def write_inputs(folder: Path, data: Path, size: int, count: int, words: int | None = None) -> None:
    """Writes what the steps read, for a corpus of `size` passages (cut to `words`, if given) and `count` questions."""
    from benchmarks.index_kinds import write_embeddings
    from benchmarks.random_inputs import one_layer_model, random_views, write_index

    folder.mkdir()
    squad = squad_passages(data)
    if words is not None:
        cut = ((p, " ".join(p.text.split()[:words])) for p in squad)
        squad = [replace(p, text=text, sentence_ends=(len(text),)) for p, text in cut]
    passages = repeated(squad, size)
    one_layer_model(folder / "model", "mvr", VIEWS, WIDTH)
    counts = np.full(size, VIEWS)
    views = random_views(passages, counts, WIDTH, np.random.default_rng(0))
    write_passages(folder / "passages", passages)
    write_embeddings(folder / "embeddings", views, counts)
    write_index(folder / "index", passages, counts, views, MODEL)
    (folder / "index" / VIEWS_FILE).unlink()
    os.link(folder / "embeddings" / VIEWS_FILE, folder / "index" / VIEWS_FILE)  # saves half of the disk space
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


def peaks_of(
    data: Path,
    sizes: Sequence[int],
    questions: int,
    steps: Sequence[str] = MEASURED,
    words: int | None = None,
) -> dict[str, list[Peak]]:
    """The peaks of each step, one per size. This process holds no passages."""
    peaks: dict[str, list[Peak]] = {step: [] for step in steps}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        alone(partial(write_inputs, folder / "small", data, 1000, 20))
        for size in sizes:
            alone(partial(write_inputs, folder / "whole", data, size, questions, words))
            estimates = alone(partial(stated, steps, folder / "whole"))
            for (step, found), estimate in zip(peaks.items(), estimates, strict=True):
                above, whole = alone(partial(measured, step, folder))
                found.append(Peak(above, whole, estimate))
                print(f"{step}, {size:,} passages: {found[-1]}", file=sys.stderr, flush=True)
                shutil.rmtree(folder / "whole" / "out")
            shutil.rmtree(folder / "whole")
    return peaks


def alone(run: Callable[[], Result]) -> Result:
    """What `run` returns in a process of its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(run).result()


def rows(size: Size) -> Iterator[Row]:
    """The rows of `make bench`: each peak beside the estimate of `plan`, which it should not exceed."""
    sizes, steps = ((5000,), ("mine", "evaluate")) if size == "quick" else ((20_000, 100_000), MEASURED)
    for step, peaks in peaks_of(squad_folder(), sizes, 300, steps).items():
        for passages, each in zip(sizes, peaks, strict=True):
            stated = Contestant((each.stated / 1e6,), "estimated")
            work = f"peak memory of {step}, {passages:,} passages"
            yield Row(work, "MB", Contestant((each.whole / 1e6,)), bound=stated, goal=Goal(of_bound=1.0))


def table(sizes: Sequence[int], peaks: Mapping[str, Sequence[Peak]]) -> Iterator[str]:
    """Yields the lines of a Markdown table in megabytes, a row per step: whole / estimate, then above the start."""
    heads = [f"{size:,} passages" for size in sizes]
    columns = ["step", *heads, *(f"above the start, {size:,}" for size in sizes), "bytes per passage"]
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    for step, found in peaks.items():
        growth = (found[-1].above - found[0].above) / (sizes[-1] - sizes[0]) if len(sizes) > 1 else 0
        cells = [
            *(f"{each.whole / 1e6:,.0f} / {each.stated / 1e6:,.0f}" for each in found),
            *(f"{each.above / 1e6:,.0f}" for each in found),
            f"{growth:,.0f}",
        ]
        yield f"| `{step}` | {' | '.join(cells)} |"


def main(
    passages: Annotated[str, typer.Option(help="Sizes of the corpus, separated by commas.")] = (
        "20000,100000,500000"
    ),
    questions: Annotated[int, typer.Option(help="Questions.")] = 300,
    steps: Annotated[str, typer.Option(help="Steps, separated by commas.")] = ",".join(MEASURED),
    words: Annotated[int | None, typer.Option(help="First words of each passage that are kept.")] = None,
    data: Annotated[Path, typer.Option(envvar=environment.DATA, help="Folder with SQuAD's files.")] = Path(
        "data"
    ),
) -> None:
    """Prints megabytes, a row per step: those of the whole process, their estimate, and those above the start."""
    sizes = [int(size) for size in passages.split(",")]
    for line in table(sizes, peaks_of(data / "squad", sizes, questions, steps.split(","), words)):
        print(line)


if __name__ == "__main__":
    typer.run(main)
