"""The warm-up stage of the Dual Cross Encoder: training on generated queries before the real questions."""

from pathlib import Path

from multiview.data.passages import read_passages
from multiview.data.queries import with_queries
from multiview.errors import InputError
from multiview.steps.context import StepContext
from multiview.training.data import TrainingData
from multiview.training.mapped import MAPPED_FILE, MappedPassages
from multiview.training.stream import QueryStream
from multiview.training.train import fit_on_processes


def warm_up(context: StepContext) -> None:
    """Step: train the model `start` on the generated `queries` of `passages`, into `model`.

    Every passage is trained on once per epoch, with its next query each time; its only negatives are the other
    passages of the batch (Dual Cross Encoder 3.5). `train.warmup_passage` says whether a passage is read alone or
    together with the query; the latter invites a shortcut and is reported as a warning. Passages without queries are
    skipped and counted. Runs on `train.processes` processes.

    Raises InputError where no passage has a query.
    """
    fit_on_processes(warm_up_data, context)


def warm_up_data(context: StepContext, folder: Path) -> TrainingData[QueryStream]:
    """Returns a training's data in which the questions of an epoch are a query of each passage that has some; writes the
    passages into `folder`."""
    settings = context.settings.train
    rows = with_queries(read_passages(context.input("passages").path), context.input("queries").path)
    passages = MappedPassages.write(rows, folder / MAPPED_FILE)
    if not len(passages.ids_with_queries):
        raise InputError(
            "generation.model wrote no query for any passage: choose another model, or skip the warm-up with train.warm_up={}"
        )
    stream = QueryStream(passages.ids_with_queries, passages.queries, settings)
    if settings.warmup_passage == "with_query":
        context.events.warning(
            "train.warmup_passage=with_query: each positive is the one passage that holds its question, and a warm-up has "
            "no hard negatives, so the model can learn to match texts instead of answers; `plain` avoids it"
        )
    for name, value in (
        ("questions", len(passages.ids_with_queries)),
        ("steps", stream.steps),
        ("steps_per_epoch", stream.steps_per_epoch),
        ("passages_without_queries", len(passages) - len(passages.ids_with_queries)),
    ):
        context.events.fact(name, value)
    return TrainingData(stream, passages, with_question=settings.warmup_passage == "with_query")
