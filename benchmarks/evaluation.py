"""The step `evaluate` beside the bare searches that it makes (docs/analyses.md).

    MULTIVIEW_DATA=data python -m benchmarks.evaluation --questions 1000

Dev questions of SQuAD, already encoded, over all of its passages in CAMVR's parts, with random vectors that are near
each other if titles are equal. Bound: the rankings that `evaluate` and its analyses need (by all views, by each view
alone, by the first k), in one pass over the views; for a single analysis, only its own. With `--all`, analyses that do
not search have rows too: the time of `evaluate` with the analysis less that without any, which is mere noise for the
shortest. `attention`, `variation` and `speed` encode passages, so that their time depends on the model: only
`--encoding` runs them, with a model of one layer.

If more passages are asked for than SQuAD has, they are repeated. Contestants take turns, with one thread; times are the
process's own.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, get_args

import numpy as np
import torch
import typer

from benchmarks.random_inputs import near, one_layer_model, random_views, write_index
from benchmarks.squad import repeated, split_into, split_settings, write_passages
from benchmarks.table import Contestant, Goal, Row, Size, markdown, squad_folder
from benchmarks.timing import in_turns
from multiview import environment
from multiview.artifacts.staging import LocalArtifact
from multiview.config import Analysis, Config, Corpus, Encode, Evaluation, Questions
from multiview.data.passages import PassageRows, read_passages, shard_files
from multiview.data.question_selection import limited
from multiview.data.questions import Question, read_questions
from multiview.evaluation.analyses.analysis_input import RANGES
from multiview.evaluation.evaluate import evaluate_queries
from multiview.index.faiss_library import threads
from multiview.index.ranker import Ranker
from multiview.index.ranking import ALL_VIEWS
from multiview.index.view_index import ViewIndex
from multiview.model.encoder import BiEncoder
from multiview.model.layouts.base import Layout, kept_views
from multiview.steps.context import StepContext
from multiview.steps.events import Events

DIM = 384
ENCODING: tuple[Analysis, ...] = ("attention", "variation", "speed")
"""The analyses that encode passages."""

SQUAD = 20_958
"""Passages of SQuAD."""
MANY = 100_000
"""Passages of the larger collection."""

SEARCHING = tuple(name for name in get_args(Analysis) if name in RANGES)
"""The analyses that need further rankings."""
OTHERS: tuple[Analysis, ...] = tuple(name for name in get_args(Analysis) if name not in ENCODING)


@dataclass(frozen=True)
class Given:
    """What `evaluate` is given, with its questions encoded."""

    folder: Path
    index: ViewIndex
    layout: Layout
    questions: list[Question]
    queries: np.ndarray

    def evaluate(self, analyses: tuple[Analysis, ...]) -> None:
        """Runs the step without encoding its questions, and throws its output away."""
        sections = {
            "evaluation": Evaluation(analyses=analyses),
            "questions": Questions(),
            "corpus": Corpus(),
            "encode": Encode(device="cpu"),
        }
        names = ("model", "passages", "train_questions")
        inputs = {name: LocalArtifact(self.folder / name, "given") for name in names}
        with tempfile.TemporaryDirectory() as output:
            context = StepContext(Config.partial(sections), inputs, {"evaluation": Path(output)}, Events())
            corpus = PassageRows(shard_files(self.folder / "passages"))
            ranker = Ranker(self.index, self.folder / "index", corpus, encode := Encode(device="cpu"))
            evaluate_queries(context, ranker, self.layout, encode, self.questions, self.queries)

    def searches(self, analyses: Sequence[Analysis]) -> object:
        """Makes all rankings that `evaluate` and some analyses need, in one pass."""
        most = int(self.index.view_counts.max())
        ranges = dict.fromkeys(each for name in analyses for each in RANGES[name](most))
        return self.index.search_views([ALL_VIEWS, *ranges], self.queries, Evaluation().depth)

    def search(self) -> object:
        """Makes the ranking by all views."""
        return self.index.search(self.queries, Evaluation().depth)


def given(folder: Path, data: Path, count: int, seed: int, size: int = SQUAD) -> Given:
    """`size` of SQuAD's passages with random views, and `count` of its dev questions near a view of their gold passages."""
    split_into(folder, split_settings(data, "parquet", 1))
    one_layer_model(folder / "model", "camvr")
    layout = BiEncoder.load(folder / "model").layout
    passages = list(read_passages(folder / "passages"))
    if size > len(passages):
        shutil.rmtree(folder / "passages")
        write_passages(folder / "passages", passages := repeated(passages, size))
    counts = np.array([len(kept_views(layout.parts(passage), padding=False)) for passage in passages])
    rng = np.random.default_rng(seed)
    views = random_views(passages, counts, DIM, rng)
    write_index(folder / "index", passages, counts, views, "given")
    questions = limited(read_questions(folder / "dev_questions"), count, seed)
    row_of = {passage.id: row for row, passage in enumerate(passages)}
    gold = np.array([row_of[question.positive_ids[0]] for question in questions])
    queries = near(views, (np.cumsum(counts) - counts)[gold], rng)
    return Given(folder, ViewIndex.load(folder / "index"), layout, questions, queries)


def evaluating(
    data: Path,
    count: int,
    repeats: int,
    clock: Callable[[], float],
    singles: Sequence[Analysis],
    size: int = SQUAD,
    seed: int = 0,
) -> Iterator[Row]:
    """Yields the row of `evaluate`, one without analyses, and one per analysis of `singles`."""
    with tempfile.TemporaryDirectory() as temporary:
        made = given(Path(temporary), data, count, seed, size)
        contestants: dict[str, Callable[[], object]] = {
            "search": made.search,
            "searches": partial(made.searches, SEARCHING),
            "evaluate": partial(made.evaluate, OTHERS),
            "none": partial(made.evaluate, ()),
        }
        contestants |= {name: partial(made.evaluate, (name,)) for name in singles}
        searching: list[Analysis] = [name for name in singles if name in SEARCHING]
        contestants |= {f"searches of {name}": lambda name=name: made.searches([name]) for name in searching}
        times = in_turns(contestants, repeats, clock)
        work = f"{len(made.questions):,} questions, {len(made.index):,} passages, {made.index.header['views']:,} views"
    bound = Contestant.of(times["searches"], "all its searches in one pass")
    yield Row(
        f"evaluate, {work}", "ms", Contestant.of(times["evaluate"]), bound=bound, goal=Goal(of_bound=0.5)
    )
    alone = Contestant.of(times["search"], "its first search")
    yield Row(
        f"evaluate without analyses, {len(made.index):,} passages",
        "ms",
        Contestant.of(times["none"]),
        bound=alone,
    )
    for name in singles:
        if name in searching:
            bound = Contestant.of(times[f"searches of {name}"], "its searches in one pass")
            yield Row(
                f"evaluate with {name} alone, {len(made.index):,} passages",
                "ms",
                Contestant.of(times[name]),
                bound=bound,
            )
        else:
            more = (each - without for each, without in zip(times[name], times["none"], strict=True))
            yield Row(f"evaluate, {name} alone", "ms", Contestant.of(more))


def rows(size: Size) -> Iterator[Row]:
    """The rows of `make bench`: with one thread, processor time. quick: only those of the whole step."""
    torch.set_num_threads(1)
    with threads(1):
        if size == "quick":
            yield from evaluating(squad_folder(), 1000, 1, time.process_time, ())
        else:
            yield from evaluating(squad_folder(), 1000, 2, time.process_time, SEARCHING)
            yield from evaluating(squad_folder(), 1000, 1, time.process_time, (), MANY)


def main(
    questions: Annotated[int, typer.Option(help="Dev questions.")] = 1000,
    repeats: Annotated[int, typer.Option(min=1, help="Repeats of each contestant.")] = 3,
    passages: Annotated[int, typer.Option(min=SQUAD, help="Passages.")] = SQUAD,
    every: Annotated[bool, typer.Option("--all", help="The analyses that search for nothing too.")] = False,
    encoding: Annotated[bool, typer.Option(help="Those that encode passages besides.")] = False,
    data: Annotated[Path, typer.Option(envvar=environment.DATA, help="Folder with SQuAD's files.")] = Path(
        "data"
    ),
) -> None:
    """Prints milliseconds of processor time, min / median / max."""
    torch.set_num_threads(1)
    singles = (*OTHERS, *ENCODING) if encoding else OTHERS if every else SEARCHING
    measured = evaluating(data / "squad", questions, repeats, time.process_time, singles, passages)
    with threads(1):
        for line in markdown(measured):
            print(line, flush=True)


if __name__ == "__main__":
    typer.run(main)
