"""The passages of a warm-up with their queries: mapped into memory, never held."""

import gc
import random
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from multiview.artifacts.staging import LocalArtifact
from multiview.config import Config, Train
from multiview.data.passages import Passage, read_passages
from multiview.data.queries import with_queries
from multiview.data.questions import seeded_hash
from multiview.errors import InputError
from multiview.steps.context import StepContext
from multiview.training.data import warm_up_data
from multiview.training.example_order import QueryStream
from multiview.training.mapped_passages import MappedPassages
from tests.fixtures.artifacts import passages_table
from tests.fixtures.events import RecordedEvents
from tests.fixtures.written_queries import write_queries

Rows = list[tuple[Passage, tuple[str, ...]]]


def rows(count: int, words: int = 4) -> Iterator[tuple[Passage, tuple[str, ...]]]:
    """Passages of some `words`, in no order of their ids; every fourth was asked nothing."""
    draws = random.Random(count)
    for number in range(count):
        text = " ".join(f"{draws.random():.6f}" for _ in range(words))
        asked = tuple(f"{text[:60]} {query}" for query in (1, 2, 1, 3)[: number % 4])
        yield Passage(f"p{number * 7919 % 10007}", f"é{number}", text, (3, len(text))), asked


def corpus(folder: Path, of: Iterator[tuple[Passage, tuple[str, ...]]], shards: int = 2) -> tuple[Path, Path]:
    """Folders of the passages and of their queries, shard by shard."""
    found = list(of)
    passages, queries = folder / "passages", folder / "queries"
    passages.mkdir(parents=True)
    queries.mkdir()
    for shard in range(shards):
        part = found[len(found) * shard // shards : len(found) * (shard + 1) // shards]
        table = passages_table([passage for passage, _ in part])
        pq.write_table(table, passages / f"shard-{shard:02d}.parquet", row_group_size=1000)
        write_queries([(p.id, asked) for p, asked in part], queries / f"shard-{shard:02d}.parquet")
    return passages, queries


def mapping(passages: Path, queries: Path, folder: Path) -> MappedPassages:
    return MappedPassages.write(with_queries(read_passages(passages), queries), folder / "mapped.arrow")


def test_mapped_passages_are_those_of_the_corpus(tmp_path: Path) -> None:
    written = list(rows(2300))
    mapped = mapping(*corpus(tmp_path, iter(written)), tmp_path)
    assert len(mapped) == 2300 and list(mapped) == [passage.id for passage, _ in written]
    for passage, asked in written[::97]:
        assert mapped[passage.id] == passage
        assert mapped.queries(passage.id) == tuple(dict.fromkeys(asked))
    assert mapped.ids_with_queries.to_pylist() == [passage.id for passage, asked in written if asked]
    for name in ("p", "p99999", "q"):
        assert name not in mapped
        with pytest.raises(KeyError):
            mapped.queries(name)


def test_the_warm_up_takes_each_passage_s_next_query_every_epoch() -> None:
    expected = {passage.id: tuple(dict.fromkeys(asked)) for passage, asked in rows(20) if asked}
    stream = QueryStream(
        pa.chunked_array([list(expected)]), expected.__getitem__, Train(batch_size=4, epochs=3, negatives=7)
    )
    size = stream.steps_per_epoch * stream.batch_size
    for item in range(len(stream)):
        example, epoch = stream[item], item // size
        asked = expected[example.positive]
        assert example.question.question == asked[epoch % len(asked)]
        assert example.question.positive_ids == (example.positive,) and example.negatives == ()
        order = sorted(
            expected, key=lambda id_, epoch=epoch: seeded_hash(stream.settings.seed, f"{epoch}:{id_}")
        )
        assert example.positive == order[item % size]


def test_a_warm_up_knows_equal_texts(tmp_path: Path) -> None:
    (one, _), *others = rows(8)
    passages, queries = corpus(tmp_path, iter([(one, ("?",)), *others, (replace(one, id="again"), ("?",))]))
    inputs = {"passages": LocalArtifact(passages, "p"), "queries": LocalArtifact(queries, "q")}
    data = warm_up_data(StepContext(Config(), inputs, {}, RecordedEvents()), tmp_path)
    assert data.equal == {one.id: one.id, "again": one.id}


@pytest.mark.parametrize(("asked", "train"), [(1, {}), (8, {"batch_size": 1}), (8, {"negative_group": 1})])
def test_a_warm_up_without_any_negative_is_refused(tmp_path: Path, asked: int, train) -> None:
    written = [(passage, ("?",) * (number < asked)) for number, (passage, _) in enumerate(rows(8))]
    texts, queries = corpus(tmp_path, iter(written))
    inputs = {"passages": LocalArtifact(texts, "p"), "queries": LocalArtifact(queries, "q")}
    context = StepContext(Config(train=Train(**train)), inputs, {}, RecordedEvents())
    with pytest.raises(InputError, match="leaves a query no negative to learn from; .*train.warm_up={}"):
        warm_up_data(context, tmp_path)


def taken(folder: Path, passages: int) -> np.ndarray:
    """Bytes that mapping a corpus and going through it takes: at the end, and Python's at most."""
    places = corpus(folder, rows(passages, words=300))
    gc.collect()
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        mapped = mapping(*places, folder)
        stream = QueryStream(mapped.ids_with_queries, mapped.queries, Train(batch_size=8, epochs=1))
        for item in range(0, len(stream), 50):
            assert len(mapped[stream[item].positive].text) > 2000
        arrow = pa.total_allocated_bytes() - before
        return np.array(tracemalloc.get_traced_memory()) + arrow
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_texts(tmp_path: Path) -> None:
    """A passage and its queries have 3 kB here; what grows is an id and a place in an order."""
    taken(tmp_path / "warm", 10)
    growth = taken(tmp_path / "large", 4000) - taken(tmp_path / "small", 2000)
    assert (growth < 2000 * 100).all()
