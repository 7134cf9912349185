"""Encoding: an embedding depends on its passage alone, and the files match their description."""

import json
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from multiview.artifacts.staging import LocalArtifact
from multiview.config import Config, Encode
from multiview.data.passages import Passage, content_hash
from multiview.encoding.encode import encode, encode_questions
from multiview.errors import InputError
from multiview.model import devices
from multiview.model.batch import make_batch
from multiview.model.encoder import BiEncoder
from multiview.steps.context import StepContext
from tests.fixtures import training_material
from tests.fixtures.events import RecordedEvents
from tests.fixtures.full_gpu import full

PASSAGES = [training_material.passage(i, sentences=1 + i % 8) for i in range(60)]


def embed(
    model: LocalArtifact,
    passages: list[Passage],
    folder: Path,
    events: RecordedEvents | None = None,
    **options: Any,
) -> Path:
    chosen = Encode(**{"batch_tokens": 512, "device": "cpu", **options})
    shard = training_material.write_shard(folder / "shard", passages, number=3)
    (folder / "out").mkdir()
    inputs = {"model": model, "passages": shard}
    outputs = {"embeddings": folder / "out"}
    encode(StepContext(Config.partial({"encode": chosen}), inputs, outputs, events or RecordedEvents()))
    return folder / "out"


def read(folder: Path) -> dict[str, np.ndarray]:
    """Each passage's vectors, by the files' own description."""
    description = json.loads((folder / "embeddings.json").read_text())
    matrix = np.fromfile(folder / "views.f16", "<f2").reshape(description["rows"], description["dim"])
    rows = pq.read_table(folder / "rows.parquet").to_pylist()
    return {row["id"]: matrix[row["offset"] : row["offset"] + row["views"]] for row in rows}


@pytest.fixture(scope="module")
def model(base: Path, tmp_path_factory: pytest.TempPathFactory) -> LocalArtifact:
    return training_material.saved_model(tmp_path_factory.mktemp("model") / "camvr", base)


@pytest.mark.parametrize("compute", ["float32", "autocast", "bfloat16"])
def test_an_embedding_is_the_same_to_the_bit_whatever_shard_neighbours_or_threads_it_had(
    model: LocalArtifact, tmp_path: Path, compute: str
) -> None:
    folder = embed(model, PASSAGES, tmp_path / "whole", compute=compute)
    whole, shuffled = read(folder), random.Random(1).sample(PASSAGES, len(PASSAGES))
    parts = {"a": shuffled[:7], "b": shuffled[7:45], "c": shuffled[45:], "alone": [PASSAGES[5]]}
    for name, part in parts.items():
        for passage, vectors in read(embed(model, part, tmp_path / name, compute=compute)).items():
            assert np.array_equal(vectors.view(np.uint16), whole[passage].view(np.uint16)), passage
    for threads in (2, 3):
        torch.set_num_threads(threads)
        again = embed(model, PASSAGES, tmp_path / str(threads), compute=compute)
        torch.set_num_threads(1)
        assert (again / "views.f16").read_bytes() == (folder / "views.f16").read_bytes()


def test_files_are_the_same_whatever_works_ahead(
    model: LocalArtifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [*PASSAGES, *(training_material.passage(i, sentences=3) for i in range(60, 150))]
    here = embed(model, many, tmp_path / "here")
    monkeypatch.setattr(devices, "CPU_WORKERS", 2)
    ahead = embed(model, many, tmp_path / "ahead")
    for file in here.iterdir():
        assert file.read_bytes() == (ahead / file.name).read_bytes()


@pytest.mark.parametrize("name", ["dpr", "mvr", "camvr"])
def test_vectors_are_the_models_own(base: Path, tmp_path: Path, name: str) -> None:
    staged = training_material.saved_model(tmp_path / "model", base, architecture=name)
    vectors = read(embed(staged, PASSAGES[:9], tmp_path))
    encoder = BiEncoder.load(staged.path)
    for passage in PASSAGES[:9]:
        (sequence,) = encoder.layout.passage(passage)
        with torch.inference_mode():
            views = encoder.encode_passages(make_batch([sequence], 0, len(sequence.views)))[0]
        real = [i for i, view in enumerate(sequence.views) if not view.padding]
        np.testing.assert_allclose(vectors[passage.id], views[real].numpy(), rtol=2e-3, atol=1e-3)


def test_padding_views_are_left_out_unless_wanted(model: LocalArtifact, tmp_path: Path) -> None:
    layout = BiEncoder.load(model.path).layout
    real = {p.id: sum(not view.padding for view in layout.passage(p)[0].views) for p in PASSAGES}
    events = RecordedEvents()
    kept = read(embed(model, PASSAGES, tmp_path / "kept", events))
    assert {name: len(vectors) for name, vectors in kept.items()} == real
    assert events.facts["views"] + events.facts["padding_views_left_out"] == 4 * len(PASSAGES)
    every = read(embed(model, PASSAGES, tmp_path / "every", index_padding_views=True))
    assert {len(vectors) for vectors in every.values()} == {4}
    assert all(np.array_equal(every[name][: len(vectors)], vectors) for name, vectors in kept.items())


def test_a_base_that_cannot_read_the_corpus_is_said(model: LocalArtifact, tmp_path: Path) -> None:
    """All views of a corpus of another script would be alike, without a word."""
    thai = [replace(passage, text="หอคอยนี้สร้างโดยกษัตริย์", sentence_ends=(24,)) for passage in PASSAGES[:5]]
    for name, passages, said in (("english", PASSAGES, False), ("thai", thai, True)):
        events = RecordedEvents()
        embed(model, passages, tmp_path / name, events)
        lines = [
            line for line in events.warnings if re.search(r"has no tokens for 100% .* reads as \[UNK\]", line)
        ]
        assert len(lines) == said == len(events.warnings)


def test_the_files_are_as_described(model: LocalArtifact, tmp_path: Path) -> None:
    events = RecordedEvents()
    folder = embed(model, PASSAGES, tmp_path, events)
    description = json.loads((folder / "embeddings.json").read_text())
    data = (folder / "views.f16").read_bytes()
    rows = pq.read_table(folder / "rows.parquet").to_pylist()
    assert [row["id"] for row in rows] == [p.id for p in PASSAGES]
    assert [row["content_hash"] for row in rows] == [content_hash(p.title, p.text) for p in PASSAGES]
    assert [row["offset"] for row in rows] == np.cumsum([0] + [row["views"] for row in rows])[:-1].tolist()
    assert len(data) == description["rows"] * 64 * 2 == sum(row["views"] for row in rows) * 128
    assert description["model"] == model.digest and description["passages"] == 60
    assert events.steps[-1] == (60, 60, "passages")


def test_questions_come_back_in_order_and_depend_on_themselves_alone(base: Path, tmp_path: Path) -> None:
    staged = training_material.saved_model(tmp_path / "model", base, normalise=True)
    questions = [("king " * (i % 11 + 1)) + f"{i}?" for i in range(30)]
    chosen = Encode(batch_tokens=256, device="cpu")
    vectors = encode_questions(staged.path, questions, chosen, RecordedEvents())
    assert vectors.dtype == np.float32 and vectors.shape == (30, 64)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 20, rtol=1e-5)
    reverse = encode_questions(staged.path, questions[::-1], chosen, RecordedEvents())
    assert np.array_equal(reverse[::-1], vectors)
    for i in (0, 17):
        assert np.array_equal(
            encode_questions(staged.path, [questions[i]], chosen, RecordedEvents())[0], vectors[i]
        )
    assert encode_questions(staged.path, [], chosen, RecordedEvents()).shape == (0, 64)


def test_a_gpu_that_is_full_has_a_hint(
    model: LocalArtifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("encode_passages", "encode_questions"):
        monkeypatch.setattr(BiEncoder, name, full)
    hint = r"^the GPU's memory is full: set encode.batch_tokens below 4096$"
    with pytest.raises(InputError, match=hint):
        embed(model, PASSAGES[:2], tmp_path, batch_tokens=4096)
    with pytest.raises(InputError, match=hint):
        encode_questions(model.path, ["Who?"], Encode(batch_tokens=4096, device="cpu"), RecordedEvents())


def test_float16_is_refused_on_a_cpu(model: LocalArtifact, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^encode\.compute: float16 needs a GPU"):
        embed(model, PASSAGES[:2], tmp_path, compute="float16")
