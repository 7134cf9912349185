"""The warm-up stage of the Dual Cross Encoder: training on generated queries before the real ones."""

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from multiview.config import Train
from multiview.data.passages import COLUMNS, Passage, passages_of, read_tables
from multiview.data.questions import Question
from multiview.errors import InputError
from multiview.generation.queries import distinct, iterate_queries
from multiview.training.processes import on_processes
from multiview.training.stream import Example, QuestionStream
from multiview.training.train import fit
from multiview.training.trainer import Checkpoints


def warm_up(
    settings: Any,
    inputs: dict[str, Any],
    output: dict[str, Path],
    tell: Any,
    checkpoints: Checkpoints | None = None,
) -> None:
    """Step: train the model `start` on the generated `queries` of `passages`, into `model`.

    Every passage is trained on once an epoch, with its next query each time, against the other passages
    of the batch alone (Dual Cross Encoder 3.6). `train.warmup_passage` says whether a passage is read
    with the query. Passages without queries are passed over and counted. Runs on `train.processes`.
    """
    on_processes(_warm_up, settings, inputs, output, tell, checkpoints)


def _warm_up(
    settings: Any,
    inputs: dict[str, Any],
    output: dict[str, Path],
    tell: Any,
    checkpoints: Checkpoints | None = None,
) -> None:
    chosen: Train = settings.train
    queries = {id_: distinct(asked) for id_, asked in iterate_queries(inputs["queries"].path) if asked}
    if not queries:
        raise InputError(
            "generation.model wrote no query for any passage: choose another, or do without the warm-up by train.warm_up={}"
        )
    stream = QueryStream(queries, chosen)
    for name, value in (
        ("questions", len(queries)),
        ("steps", stream.steps),
        ("steps_per_epoch", stream.steps_per_epoch),
    ):
        tell.fact(name, value)
    with tempfile.TemporaryDirectory(prefix="passages-") as folder:
        passages = MappedPassages(inputs["passages"].path, Path(folder))
        tell.fact("passages_without_queries", len(passages) - len(queries))
        fit(
            chosen,
            inputs["start"].path,
            stream,
            passages,
            output["model"],
            tell,
            checkpoints,
            with_question=chosen.warmup_passage == "with_query",
        )


class QueryStream(QuestionStream):
    """Each passage with one of its queries, the next one every epoch; no hard negatives."""

    def __init__(self, queries: Mapping[str, tuple[str, ...]], settings: Train) -> None:
        """`queries` of each passage, none of them without."""
        ids = list(queries)
        asked = [Question(id_, "", (), None, (id_,)) for id_ in ids]
        super().__init__(asked, [[id_] for id_ in ids], {}, settings)
        self.queries = queries

    def __getitem__(self, item: int) -> Example:
        example = super().__getitem__(item)
        epoch = item // (self.steps_per_epoch * self.batch_size)
        own = self.queries[example.positive]
        return replace(example, question=replace(example.question, question=own[epoch % len(own)]))


class MappedPassages(Mapping[str, Passage]):
    """A corpus's passages by id, from a file mapped into memory; the ids alone are held."""

    def __init__(self, corpus: Path, scratch: Path) -> None:
        file = scratch / "passages.arrow"
        self._places: dict[str, tuple[int, int]] = {}
        writer = None
        for number, batch in enumerate(read_tables(corpus, COLUMNS)):
            writer = writer or pa.ipc.new_file(str(file), batch.schema)
            writer.write_batch(batch)
            self._places.update(
                (id_, (number, row)) for row, id_ in enumerate(batch.column("id").to_pylist())
            )
        if writer is not None:
            writer.close()
            self._file = pa.ipc.open_file(pa.memory_map(str(file)))

    def __getitem__(self, id_: str) -> Passage:
        batch, row = self._places[id_]
        return next(passages_of(self._file.get_batch(batch).slice(row, 1)))

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
