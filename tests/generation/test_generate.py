"""Generating queries with a tiny random T5: the same whatever the order, and whatever interrupts it."""

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from multiview.artifacts.staging import LocalArtifact
from multiview.config import Config, Encode, Generation
from multiview.data import queries
from multiview.data.passages import Passage
from multiview.data.queries import FILE, iterate_queries, with_queries
from multiview.errors import InputError
from multiview.generation import generate
from multiview.generation.generate import TOP_K, TOP_P, QueryGenerator, candidates, generate_queries, uniforms
from multiview.generation.generators import INPUT_LENGTH, input_length, load
from multiview.steps.checkpoints import NO_CHECKPOINTS, Checkpoints
from multiview.steps.context import StepContext
from tests.fixtures import training_material
from tests.fixtures.checkpoints import KeptCheckpoints
from tests.fixtures.events import RecordedEvents
from tests.fixtures.full_gpu import full
from tests.fixtures.tiny import tiny_t5

SETTINGS = Generation(queries=3, max_length=8, batch_size=4)
PASSAGES = [training_material.passage(number) for number in range(12)]


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_t5(tmp_path_factory.mktemp("t5"))


@pytest.fixture(scope="module")
def generator(t5: Path) -> QueryGenerator:
    return QueryGenerator(t5, SETTINGS)


def queries_of(generator: QueryGenerator, passages: Sequence[Passage]) -> dict[str, list[str]]:
    return {passages[number].id: queries for number, queries in generator.queries(passages)}


@cache
def _expected(generator: QueryGenerator) -> dict[str, list[str]]:
    return queries_of(generator, PASSAGES)


@given(st.permutations(range(len(PASSAGES))), st.sets(st.integers(1, len(PASSAGES) - 1), max_size=3))
@example(range(len(PASSAGES)), {*range(1, len(PASSAGES))})
@settings(max_examples=4, deadline=None)
def test_queries_are_the_same_whatever_the_order_and_the_shards(
    generator: QueryGenerator, order: Sequence[int], cuts: set[int]
) -> None:
    """Also each passage alone."""
    edges = [0, *sorted(cuts), len(order)]
    found: dict[str, list[str]] = {}
    for start, stop in pairwise(edges):
        found |= queries_of(generator, [PASSAGES[number] for number in order[start:stop]])
    assert found == _expected(generator)


def test_every_batch_of_one_length_has_one_shape(
    generator: QueryGenerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another shape would change logits in their last bits, and now and then a token."""
    shapes: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    read, write = generator.model.get_encoder(), generator.model.generate

    def spy(input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
        shapes.append((tuple(input_ids.shape), ()))
        return read(input_ids=input_ids, attention_mask=attention_mask)

    def written(**given: Any) -> Any:
        shapes[-1] = (shapes[-1][0], tuple(given["encoder_outputs"].last_hidden_state.shape))
        return write(**given)

    monkeypatch.setattr(generate, "BUCKET", 16)
    monkeypatch.setattr(generator.model, "get_encoder", lambda: spy)
    monkeypatch.setattr(generator.model, "generate", written)
    lengths = {-(-len(generator._tokens(passage)) // 16) * 16 for passage in PASSAGES}
    assert len(lengths) > 2
    queries_of(generator, PASSAGES)
    assert set(shapes) == {((4, length), (12, length, 32)) for length in lengths}


def test_queries_are_drawn_token_by_token_from_the_model_s_distribution(
    generator: QueryGenerator, t5: Path
) -> None:
    """Each query again: in float64, without cache, batch, padding or transformers' `generate`."""
    model, tokenizer = load(t5)
    model = model.double()
    for passage in PASSAGES[:4]:
        text = f"{passage.title} {passage.text}".strip()
        ids = tokenizer(text)["input_ids"][: INPUT_LENGTH - 1]
        ids = torch.tensor([ids if ids[-1] == tokenizer.eos_token_id else [*ids, tokenizer.eos_token_id]])
        numbers = uniforms(SETTINGS.seed, passage.id, SETTINGS.queries, SETTINGS.max_length)
        for number, row in enumerate(numbers):
            written = [model.config.decoder_start_token_id]
            for uniform in row:
                with torch.no_grad():
                    logits = model(input_ids=ids, decoder_input_ids=torch.tensor([written])).logits[:, -1]
                probabilities, tokens = candidates(logits, TOP_K, TOP_P)
                reached = np.cumsum(probabilities[0].numpy()) > uniform
                written.append(int(tokens[0, reached.argmax()]))
                if written[-1] == tokenizer.eos_token_id:
                    break
            text = tokenizer.decode(written, skip_special_tokens=True)
            assert _expected(generator)[passage.id][number] == " ".join(text.split())


def test_the_draws_of_a_passage_differ_and_so_do_seeds_and_passages(
    generator: QueryGenerator, t5: Path
) -> None:
    expected = _expected(generator)
    assert len({query for queries in expected.values() for query in queries}) == 3 * len(PASSAGES)
    other = QueryGenerator(t5, SETTINGS.model_copy(update={"seed": 1}))
    assert not set(queries_of(other, PASSAGES[:2])["p000"]) & set(expected["p000"])


def test_a_gpu_that_is_full_has_a_hint(generator: QueryGenerator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator.model, "generate", full)
    with pytest.raises(InputError, match=r"^the GPU's memory is full: set generation.batch_size below 4$"):
        queries_of(generator, PASSAGES[:1])


def test_the_title_is_read_where_it_is_asked_for(t5: Path) -> None:
    def read(input: str, title: str) -> list[int]:
        chosen = SETTINGS.model_copy(update={"input": input})
        return QueryGenerator(t5, chosen)._tokens(Passage("p", title, "The sea.", (8,)))

    assert read("text", "Europe") == read("text", "") == read("title_text", "")
    assert len(read("title_text", "king")) == len(read("text", "king")) + 1


def run(
    t5: Path, passages: Sequence[Passage], output: Path, checkpoints: Checkpoints = NO_CHECKPOINTS
) -> tuple[RecordedEvents, Path]:
    output.mkdir()
    events, shard = RecordedEvents(), training_material.write_shard(output / "passages", passages)
    chosen = Config.partial({"encode": Encode(), "generation": SETTINGS})
    inputs = {"generator": LocalArtifact(t5, "t5"), "passages": shard}
    generate_queries(StepContext(chosen, inputs, {"queries": output}, events, checkpoints))
    return events, output


def test_the_step_writes_queries_in_passage_order_and_the_very_bytes_where_it_was_killed(
    generator: QueryGenerator, t5: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generate, "ROW_GROUP", 5)
    monkeypatch.setattr(queries, "PARTS_PER_CHECKPOINT", 1)
    events, whole = run(t5, PASSAGES, tmp_path / "whole")
    assert {name: list(queries) for name, queries in iterate_queries(whole)} == _expected(generator)
    assert [name for name, _ in iterate_queries(whole)] == [passage.id for passage in PASSAGES]
    file = pq.read_metadata(whole / FILE)
    assert [file.row_group(number).num_rows for number in range(file.num_row_groups)] == [5, 5, 2]
    assert events.steps[-1] == (12, 12, "passages")
    assert events.facts["passages"] == 12 and events.facts["queries"] == 36
    assert events.facts["empty_queries"] == 0 and not events.warnings

    kept = KeptCheckpoints(tmp_path / "checkpoints", stop_after=2)
    with pytest.raises(KeyboardInterrupt):
        run(t5, PASSAGES, tmp_path / "killed", kept)
    kept.stop_after = None
    events, resumed = run(t5, PASSAGES, tmp_path / "resumed", kept)
    assert (resumed / FILE).read_bytes() == (whole / FILE).read_bytes()
    assert [done for done, _, _ in events.steps] == [11, 12], "what was done is not done again"


def test_empty_queries_are_left_out_and_counted(
    t5: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = [["", "a", "a"], ["", "", ""], ["b", "c", "d"]]
    monkeypatch.setattr(QueryGenerator, "queries", lambda self, passages: reversed([*enumerate(drawn)]))
    events, output = run(t5, PASSAGES[:3], tmp_path / "out")
    assert list(iterate_queries(output)) == [("p000", ("a", "a")), ("p001", ()), ("p002", ("b", "c", "d"))]
    assert {name: value for name, value in events.facts.items() if name != "passages"} == {
        "queries": 5,
        "distinct_queries": 4,
        "empty_queries": 4,
        "passages_short_of_queries": 2,
        "passages_without_queries": 1,
    }
    assert events.warnings == ["1 of 3 passages got no query and have only the view of their own text"]


def test_queries_are_read_beside_their_passages(t5: Path, tmp_path: Path) -> None:
    _, output = run(t5, PASSAGES[:4], tmp_path / "out")
    of = dict(iterate_queries(output))
    assert list(with_queries(PASSAGES[:4], output)) == [(p, of[p.id]) for p in PASSAGES[:4]]
    with pytest.raises(InputError, match="queries of 'p000' where passage 'p001' comes"):
        list(with_queries(PASSAGES[1:4], output))
    with pytest.raises(InputError, match="queries of None where passage 'p004' comes"):
        list(with_queries(PASSAGES[:5], output))
    with pytest.raises(InputError, match="queries of 'p003' after the last passage"):
        list(with_queries(PASSAGES[:3], output))
    with pytest.raises(InputError, match="run the generate-queries step"):
        list(iterate_queries(tmp_path))


def test_settings_that_do_not_suit_are_refused_with_one_line(t5: Path) -> None:
    with pytest.raises(InputError, match=r"encode\.device: torch has no device 'tpu9x' here"):
        QueryGenerator(t5, SETTINGS, "tpu9x")
    sixteen: Any = SimpleNamespace(config=SimpleNamespace(max_position_embeddings=16))
    with pytest.raises(InputError, match=r"generation\.max_length: 17, but the model has 16 positions"):
        input_length(sixteen, SETTINGS.model_copy(update={"max_length": 17}))
    assert input_length(sixteen, SETTINGS) == 16
