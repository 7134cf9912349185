"""Mining of hard negatives beside sentence-transformers and beside the machine's bound (docs/mining.md).

    MULTIVIEW_DATA=data python -m benchmarks.mining --questions 1000

Training questions of SQuAD, all of its passages, 200 hits per question, of which 30 are sampled; with one vector per
passage and with CAMVR's number of views; without any filter, with a margin, and with the check for answers. Vectors are
random, near each other if titles are equal, and the same for all contestants. The peer is `mine_hard_negatives`, which
searches with torch or faiss, supports margins, and checks no answers; the table has the faster of the two. It needs the
package `datasets`; without it, its column says "not run". The bound with one vector is a product of all vectors and
torch's top-k; with CAMVR's views it is our own time with one vector. Contestants take turns; with one thread, times are
the process's own.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import torch
import typer

from benchmarks.random_inputs import near, random_views, write_index
from benchmarks.squad import squad_passages, squad_questions, write_passages
from benchmarks.table import Goal, Row, Size, markdown, of_times, squad_folder
from benchmarks.timing import in_turns
from multiview import environment
from multiview.config import Config, Corpus, Encode, Mining, Questions
from multiview.data.passages import Passage
from multiview.data.questions import Question
from multiview.index.faiss_library import threads
from multiview.index.view_index import ViewIndex
from multiview.negatives.mining import mine_hits, report
from multiview.negatives.negatives_file import MINED, negatives_table, write_negatives
from multiview.steps.events import Events

DIM = 384
MOST_VIEWS = 10
"""Views per passage: 1 to this many, 5.5 on average, as CAMVR makes for SQuAD's passages."""

ONE, VIEWS, CHECKED, WITHIN = "one vector each", "CAMVR's views", ", answers checked", ", with a margin"
MARGIN = 0.05
"""A negative's score is below its positive's by at least this share of it."""
FILTERS: dict[str, dict[str, Any]] = {
    "": {"answer_hits": "keep"},
    WITHIN: {"answer_hits": "keep", "relative_margin": MARGIN},
    CHECKED: {},
}
"""Settings of mining by what they add to a row's name."""
PEER, BOUND = "mine_hard_negatives", "product and top-k"


class Encoded:
    """A model as `mine_hard_negatives` needs it, with known vectors."""

    device = torch.device("cpu")

    def __init__(self, passages: np.ndarray, questions: np.ndarray) -> None:
        self._passages, self._questions = passages, questions

    def encode_document(self, *_: object, **__: object) -> np.ndarray:
        return self._passages

    def encode_query(self, *_: object, **__: object) -> np.ndarray:
        return self._questions

    def get_embedding_dimension(self) -> int:
        return self._passages.shape[1]

    @staticmethod
    def similarity(first: np.ndarray, second: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(first) @ second.T

    @staticmethod
    def similarity_pairwise(first: np.ndarray, second: np.ndarray) -> torch.Tensor:
        return (torch.as_tensor(first) * torch.as_tensor(second)).sum(dim=1)


def peer(
    passages: Sequence[Passage],
    questions: Sequence[Question],
    model: Encoded,
    settings: Mining,
    use_faiss: bool,
    margin: float | None = None,
) -> Any:
    """The negatives that sentence-transformers mines."""
    from datasets import Dataset  # pyright: ignore[reportMissingImports]
    from sentence_transformers.util import mine_hard_negatives

    texts = {passage.id: passage.text for passage in passages}
    pairs = {
        "question": [question.question for question in questions],
        "passage": [texts[question.positive_ids[0]] for question in questions],
    }
    with contextlib.redirect_stdout(StringIO()), contextlib.redirect_stderr(StringIO()):
        return mine_hard_negatives(
            Dataset.from_dict(pairs),
            model,  # pyright: ignore[reportArgumentType]
            corpus=list(texts.values()),
            range_max=settings.depth,
            num_negatives=settings.number,
            sampling_strategy="random",
            relative_margin=margin,
            output_format="n-tuple",
            use_faiss=use_faiss,
            verbose=False,
        )


def ours(
    index: Path,
    corpus: Path,
    questions: Sequence[Question],
    queries: np.ndarray,
    settings: Config,
    output: Path,
) -> None:
    """Does all that the step `mine` does once the questions are encoded."""
    loaded = ViewIndex.load(index)
    tables = []
    for group, mined in mine_hits(loaded, queries, questions, corpus, settings, Events()):
        qids, top = [question.qid for question in questions[group]], mined.top
        tables.append(negatives_table(MINED, qids, top.passages, top.scores, mined.sampled, loaded.ids))
        report(mined, qids)
    write_negatives(output, pa.concat_tables(tables))


def mining(data: Path, count: int, repeats: int, clock: Callable[[], float], seed: int = 0) -> Iterator[Row]:
    """Yields rows of mining negatives for `count` questions, with one vector and with CAMVR's views, by each filter."""
    rng = np.random.default_rng(seed)
    passages = squad_passages(data)
    # The peer identifies passages and questions by their texts.
    passages = list({passage.text: passage for passage in passages}.values())
    row_of = {passage.id: number for number, passage in enumerate(passages)}
    drawn = squad_questions(data, "train", count, seed)
    drawn = [question for question in drawn if question.positive_ids[0] in row_of]
    questions = list({question.question: question for question in drawn}.values())
    positives = np.array([row_of[question.positive_ids[0]] for question in questions])
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_passages(folder / "passages", passages)
        contestants: dict[str, Callable[[], object]] = {}

        def add(name: str, most: int) -> tuple[np.ndarray, np.ndarray]:
            """Adds ours with up to `most` views per passage; returns the views and the questions' vectors."""
            counts = rng.integers(1, most + 1, len(passages))
            views = random_views(passages, counts, DIM, rng)
            queries = near(views, (np.cumsum(counts) - counts)[positives], rng)
            write_index(folder / str(most), passages, counts, views, "random")
            for filtered, chosen in FILTERS.items():
                mining = Mining(with_bm25=False, **chosen)
                sections = {
                    "mining": mining,
                    "encode": Encode(),
                    "questions": Questions(),
                    "corpus": Corpus(),
                }
                settings = Config.partial(sections)
                given = folder / str(most), folder / "passages", questions, queries, settings, folder
                contestants[name + filtered] = partial(ours, *given)
            return views, queries

        views, asked = add(ONE, 1)
        add(VIEWS, MOST_VIEWS)
        vectors, k = views.astype(np.float32), Mining().depth
        contestants[BOUND] = lambda: (torch.from_numpy(asked) @ torch.from_numpy(vectors).T).topk(k)
        if find_spec("datasets") and find_spec("sentence_transformers"):
            model = Encoded(vectors, asked)
            for name, use_faiss in (("torch", False), ("faiss", True)):
                for filtered, margin in (("", None), (WITHIN, MARGIN)):
                    contestants[f"{PEER} with {name}{filtered}"] = partial(
                        peer, passages, questions, model, Mining(), use_faiss, margin
                    )
        times = in_turns(contestants, repeats, clock)
    peers = sorted((name for name in times if name.startswith(PEER)), key=lambda name: median(times[name]))
    within = [name for name in peers if name.endswith(WITHIN)]
    unfiltered = [name for name in peers if name not in within]
    about = f"mine {len(questions):,} questions over {len(passages):,} passages"
    for filtered, rivals, times_peer in (
        ("", unfiltered, 1),
        (WITHIN, within, 1),
        (CHECKED, unfiltered, 0.6),
    ):
        yield of_times(
            f"{about}, {ONE}{filtered}",
            "s",
            times,
            ours=ONE + filtered,
            peer=rivals[0] if rivals else PEER,
            bound=BOUND,
            not_run="the package datasets is not installed",
            per=1000,
            goal=Goal(times_peer=times_peer),
        )
        yield of_times(
            f"{about}, {VIEWS}{filtered}",
            "s",
            times,
            ours=VIEWS + filtered,
            bound=ONE + filtered,
            per=1000,
        )


def rows(size: Size) -> Iterator[Row]:
    """The rows of `make bench`: with one thread, processor time."""
    torch.set_num_threads(1)
    repeats = 1 if size == "quick" else 3
    with threads(1):
        yield from mining(squad_folder(), 1000, repeats, time.process_time)


def main(
    questions: Annotated[int, typer.Option(help="Training questions.")] = 1000,
    repeats: Annotated[int, typer.Option(min=1, help="Repeats of each contestant.")] = 5,
    cores: Annotated[
        int, typer.Option("--threads", min=1, help="Threads; with one, times are processor time.")
    ] = 1,
    data: Annotated[Path, typer.Option(envvar=environment.DATA, help="Folder with SQuAD's files.")] = Path(
        "data"
    ),
) -> None:
    """Prints seconds in all, min / median / max, and ratios of medians."""
    clock = time.process_time if cores == 1 else time.perf_counter
    torch.set_num_threads(cores)
    with threads(cores):
        print(*markdown(mining(data / "squad", questions, repeats, clock)), sep="\n")


if __name__ == "__main__":
    typer.run(main)
