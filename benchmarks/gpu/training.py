"""A training step: the Trainer and collator of the step `train`, sentence-transformers' trainer, and the bare arithmetic."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from importlib.util import find_spec
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import cast

import torch
from accelerate.utils import send_to_device
from torch import nn

from benchmarks.gpu.sizes import DEVICE, Given, clock
from benchmarks.table import Contestant, Goal, Row, number, of_times
from benchmarks.training import OURS, PEER, Task, ours, sentence_transformers, task
from multiview.config import Train
from multiview.model.devices import workers
from multiview.model.dropout import set_dropout
from multiview.training.batches import GROUP_COST, Collator, TrainingBatch

READY = "on ready batches"


def training(work: Given, shape: str, chunked: bool = False) -> Iterator[Row | str]:
    """A row of a step with one hard negative per question, and one of the memory that it takes."""
    size = work.size
    settings = Train.model_validate(
        {
            "batch_size": size.questions,
            "max_steps": size.steps,
            "precision": "bfloat16",
            "warmup_steps": 0,
            "checkpoint_steps": size.steps + 1,
            "chunk": size.chunk if chunked else None,
        }
    )
    given = task(work.data, str(work.base(shape)), settings, clock, size.window)
    made: list[float] = []
    waits: list[float] = []
    variants: dict[str, Callable[[Task], list[float]]] = {
        OURS: partial(ours, waits=waits),
        READY: partial(ready, made=made),
    }
    if find_spec("datasets"):
        variants[PEER] = sentence_transformers
    times: dict[str, list[float]] = {}
    peaks: dict[str, float] = {}
    not_run = "the package datasets is not installed"
    for name, run in variants.items():
        if DEVICE == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        with Path(os.devnull).open("w") as null, redirect_stdout(null), redirect_stderr(null):
            try:
                times[name] = [1000 * seconds for seconds in run(given)]
            except Exception as error:
                if name != PEER:
                    raise
                not_run = f"{type(error).__name__}: {error}"
                continue
        peaks[name] = torch.cuda.max_memory_allocated() / 2**20 if DEVICE == "cuda" else 0.0
    about = f", chunks of {size.chunk}" if chunked else ""
    yield of_times(
        f"training step of {size.questions} questions and {2 * size.questions} passages, {shape}, bfloat16{about}",
        "ms",
        times,
        ours=OURS,
        peer=PEER,
        bound=READY,
        not_run=not_run,
        goal=Goal(times_peer=1.3, of_bound=0.8),
    )
    if DEVICE == "cuda":
        yield Row(
            f"memory of the same{about}",
            "MiB",
            Contestant((peaks[OURS],)),
            Contestant((peaks[PEER],), PEER) if PEER in peaks else None,
            Contestant((peaks[READY],), READY),
        )
    each = (f"{name} {number(1000 * size.questions / median(of))} questions/s" for name, of in times.items())
    processes = workers(torch.device(DEVICE))
    yield f"{'; '.join(each)}; a batch is made in {median(made):.0f} ms, beside the model in {processes} processes; ours waits {1000 * median(waits):.0f} ms for one"


def ready(work: Task, made: list[float]) -> list[float]:
    """The seconds of forward, backward and AdamW over the step's batches, which are on the device already.

    The milliseconds that making each batch took are added to `made`.
    """
    model, settings, timer = work.model().to(DEVICE).train(), work.settings, work.timer()
    set_dropout(model, settings.dropout)
    model.encode_again = settings.chunk is not None
    collator = Collator(
        model.layout, model.tokenizer.pad_token_id, work.passages, settings, group_cost=GROUP_COST[DEVICE]
    )
    batches: list[TrainingBatch] = []
    for step in range(min(work.window, work.stream.steps)):
        begun = time.perf_counter()
        batch = collator(work.stream.step(step))
        made.append(1000 * (time.perf_counter() - begun))
        batches.append(cast(TrainingBatch, send_to_device(batch, DEVICE)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, fused=True)
    for batch in islice(cycle(batches), work.stream.steps):
        with torch.autocast(DEVICE, torch.bfloat16):
            questions, vectors = model(batch["questions"], batch["passages"])
        scores = questions.float() @ vectors[:, 0].float().T
        nn.functional.cross_entropy(scores, batch["positive"]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), settings.max_grad_norm)
        optimizer.step()
        optimizer.zero_grad()
        timer.on_step_end()
    return timer.seconds
