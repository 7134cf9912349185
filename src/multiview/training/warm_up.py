"""The warm-up stage of the Dual Cross Encoder: training on generated queries before the real ones."""

import tempfile
from pathlib import Path

from multiview.errors import InputError
from multiview.steps.context import StepContext
from multiview.training.mapped import MappedPassages
from multiview.training.processes import on_processes
from multiview.training.stream import QueryStream
from multiview.training.train import fit


def warm_up(context: StepContext) -> None:
    """Step: train the model `start` on the generated `queries` of `passages`, into `model`.

    Every passage is trained on once an epoch, with its next query each time, against the other passages
    of the batch alone (Dual Cross Encoder 3.6). `train.warmup_passage` says whether a passage is read
    with the query. Passages without queries are passed over and counted. Runs on `train.processes`.
    """
    on_processes(_warm_up, context)


def _warm_up(context: StepContext) -> None:
    chosen = context.settings.train
    with tempfile.TemporaryDirectory(prefix="passages-") as folder:
        passages = MappedPassages(context.input("passages").path, context.input("queries").path, Path(folder))
        if not len(passages.asked):
            raise InputError(
                "generation.model wrote no query for any passage: choose another, or do without the warm-up by train.warm_up={}"
            )
        stream = QueryStream(passages.asked, passages.queries, chosen)
        for name, value in (
            ("questions", len(passages.asked)),
            ("steps", stream.steps),
            ("steps_per_epoch", stream.steps_per_epoch),
            ("passages_without_queries", len(passages) - len(passages.asked)),
        ):
            context.events.fact(name, value)
        fit(
            chosen,
            context.input("start").path,
            stream,
            passages,
            context,
            with_question=chosen.warmup_passage == "with_query",
        )
