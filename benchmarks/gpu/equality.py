"""Whether a GPU finds what the processor finds: rankings, vectors, and losses step by step."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np

from benchmarks.gpu.search import Collection
from benchmarks.gpu.sizes import DEVICE, MINILM_SHAPE, Given, clock
from benchmarks.table import VISIBLE_GPUS, Row
from benchmarks.training import Task, ours, task
from multiview.config import Encode, Train
from multiview.data.passages import Passage
from multiview.encoding.encode import Encoder
from multiview.index.exact import ExactSearch
from multiview.steps.events import Events
from multiview.training import trainer

BOUNDS = {"vectors": 1e-5, "float32": 1e-3, "bfloat16": 3e-2}
"""How far apart vectors of length one, and losses by `train.precision`, may be."""
STEPS = 4
K = 100


class Found(NamedTuple):
    """What one device finds."""

    passages: np.ndarray
    """[p, dim] float32."""
    questions: np.ndarray
    """[q, dim] float32."""
    losses: dict[str, list[float]]
    """The loss of each step without dropout, by `train.precision`."""


class Losses(Events):
    """Keeps the losses that a training reports."""

    def __init__(self) -> None:
        self.found: list[float] = []

    def metric(self, name: str, value: float, step: int | None = None) -> None:
        if name == "contrastive_loss":
            self.found.append(value)


def equality(work: Given) -> Iterator[Row | str]:
    """Notes on how far the device's results are from the processor's, each with its bound."""
    squad = Collection(work.size.squad)
    queries, ties = squad.questions(work.size.asked // 10), np.arange(len(squad.offsets))
    tops = [
        ExactSearch(squad.host, squad.offsets, ties, squad.longest, device).top(queries, K)[0]
        for device in (DEVICE, "cpu")
    ]
    same = all(
        np.array_equal(getattr(tops[0], part), getattr(tops[1], part))
        for part in ("passages", "scores", "winning_views")
    )
    yield f"search of {len(queries)} questions over {len(squad.host):,} views, passages, scores and views {verdict(same)}"
    tasks = {name: dropout_free(work, name) for name in ("float32", "bfloat16")}
    passages = work.passages[:: max(1, len(work.passages) // 512)][:512]
    texts = [question.question for question in tasks["float32"].stream.questions[:100]]
    given = work.model(MINILM_SHAPE, "dpr", pooling="snippet"), passages, texts, tasks
    here = found(*given)
    with (
        mock.patch.dict(os.environ, {VISIBLE_GPUS: ""}),
        ProcessPoolExecutor(1, get_context("spawn")) as pool,
    ):
        there = pool.submit(found, *given).result()
    apart = float(max(np.abs(a - b).max() for a, b in zip(here[:1], there[:1], strict=True)))
    yield f"vectors of {len(passages)} passages in float32: at most {apart:.1e} apart ({verdict(apart <= BOUNDS['vectors'], BOUNDS['vectors'])})"
    ranked = [
        np.argsort(-(each.questions @ each.passages.T), axis=1, kind="stable")[:, :10]
        for each in (here, there)
    ]
    yield f"by vectors of either device, the ten best passages of {(ranked[0] == ranked[1]).all(1).mean():.0%} of {len(texts)} questions are the same in the same order"
    for name, losses in here.losses.items():
        apart = max(abs(a - b) for a, b in zip(losses, there.losses[name], strict=True))
        steps = ", ".join(f"{a:.5f} / {b:.5f}" for a, b in zip(losses, there.losses[name], strict=True))
        yield f"losses of {STEPS} steps without dropout in {name}, {DEVICE} / processor: {steps} ({verdict(apart <= BOUNDS[name], BOUNDS[name])})"


def verdict(same: bool, bound: float = 0) -> str:
    """Whether two devices agree, within a bound or to the bit."""
    if bound:
        return f"{'within' if same else 'BEYOND'} the bound of {bound:.0e}"
    return "equal to the bit" if same else "NOT EQUAL"


def dropout_free(work: Given, precision: str) -> Task:
    """A few steps of training, without dropout."""
    settings = Train.model_validate(
        {
            "batch_size": min(16, work.size.questions),
            "max_steps": STEPS,
            "precision": precision,
            "warmup_steps": 0,
            "dropout": 0.0,
            "checkpoint_steps": STEPS + 1,
        }
    )
    return task(work.data, str(work.base(MINILM_SHAPE)), settings, clock)


def found(
    model: Path, passages: Sequence[Passage], questions: Sequence[str], tasks: dict[str, Task]
) -> Found:
    """What this process finds, on a GPU if it sees one."""
    encoder = Encoder(model, Encode())
    sequences = ((each, row) for row, p in enumerate(passages) for each in encoder.layout.passage(p))
    vectors = np.empty((len(passages), encoder.dim), np.float32)
    for _, row, views in encoder.passages(sequences):
        vectors[row] = views[0]
    losses: dict[str, list[float]] = {}
    for name, each in tasks.items():
        events = Losses()
        with mock.patch.object(trainer, "LOG_STEPS", 1):
            ours(each, group_cost=math.inf, events=events)
        losses[name] = events.found
    return Found(vectors, encoder.question_vectors(questions), losses)
