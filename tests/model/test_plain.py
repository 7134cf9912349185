"""BERT without transformers: the same tokens, and of padded batches the same vectors to the bit."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from multiview.config import Model
from multiview.model import onednn
from multiview.model.batch import make_batch, make_packed
from multiview.model.encoder import BiEncoder
from multiview.model.onednn import OrderedLinear
from multiview.model.plain import READ_ROWS, PlainBert, PlainTokenizer, is_plain
from tests.fixtures import training_material
from tests.fixtures.encoded import MODELS

TEXTS = [
    "Who built it?",
    "x",
    "[SEP] spelled as text, [VIE] too, and [UNK]",
    "Ünïcode ’quotes’ 中文字 \u202e\u0000 tabs\t and\nlines",
    "why " * 60,
]


@pytest.fixture(scope="module", params=MODELS)
def folder(request: pytest.FixtureRequest, base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    chosen = {"views": 4, "passage_length": 96, "normalise": True, **MODELS[request.param]}
    settings = Model(base=str(base), **chosen)
    folder = tmp_path_factory.mktemp("model")
    BiEncoder.create(settings).save(folder)
    return folder


@pytest.mark.parametrize("compute", ["float32", "autocast", "bfloat16"])
def test_vectors_are_those_of_transformers(folder: Path, compute: str) -> None:
    dtype = torch.bfloat16 if compute == "bfloat16" else torch.float32
    slow, fast = BiEncoder.load(folder, dtype), BiEncoder.load(folder, dtype, plain=True)
    assert isinstance(fast.encoders["question"], PlainBert) and not isinstance(
        slow.encoders["question"], PlainBert
    )
    assert (fast.dim, fast.positions) == (slow.dim, slow.positions)
    sequences = [slow.layout.question(text) for text in TEXTS]
    assert [fast.layout.question(text) for text in TEXTS] == sequences
    longest = max(len(sequence.input_ids) for sequence in sequences)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=compute == "autocast"):
        for batch in (
            make_batch(sequences, 0, 1),
            *(make_batch([sequence], 0, 1) for sequence in sequences),
            *(make_batch([sequence], 0, 1, longest, rows=8) for sequence in sequences),
        ):
            assert torch.equal(fast.encode_questions(batch), slow.encode_questions(batch))
            assert torch.equal(fast.encode_passages(batch), slow.encode_passages(batch))


PACKED_ERROR = {"float32": 1e-5, "bfloat16": 0.05, "autocast": 0.05}


@pytest.mark.parametrize("without", [False, True])
@pytest.mark.parametrize("compute", PACKED_ERROR)
def test_packed_vectors_are_near_those_in_float64_and_depend_on_their_text_alone(
    folder: Path, compute: str, without: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With oneDNN's kernels and without them."""
    multiplies = []
    ordered = OrderedLinear.__call__
    monkeypatch.setattr(OrderedLinear, "__call__", lambda *given: (multiplies.append(1), ordered(*given))[1])
    if without:
        monkeypatch.setattr("multiview.model.plain.multiplies", lambda dtype: False)
    dtype = torch.bfloat16 if compute == "bfloat16" else torch.float32
    model, exact = (
        BiEncoder.load(folder, dtype, plain=True),
        BiEncoder.load(folder, torch.float64, plain=True),
    )
    sequences = [model.layout.question(text) for text in [*TEXTS, *TEXTS]]
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=compute == "autocast"):
        found = torch.cat(model.encode_packed_questions(make_packed(sequences, 0, 512)))
        again = torch.cat(model.encode_packed_questions(make_packed(sequences[::-1], 0, 512)))
    with torch.inference_mode():
        expected = torch.cat(exact.encode_packed_questions(make_packed(sequences, 0, 512)))
    assert torch.equal(again.flip(0), found)
    error = (found.double() - expected.double()).abs().max() / expected.abs().max()
    assert error < PACKED_ERROR[compute]
    assert bool(multiplies) == (not without and compute != "autocast" and onednn.multiplies(dtype))


@pytest.mark.skipif(not onednn.multiplies(torch.float32), reason="torch has no oneDNN here")
@pytest.mark.parametrize("sequences", [1, 9, 64, 65, 90])
def test_the_last_layer_ends_with_the_tokens_that_views_read(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sequences: int
) -> None:
    ended = []
    with_gelu = OrderedLinear.with_gelu
    monkeypatch.setattr(
        OrderedLinear, "with_gelu", lambda *given: (ended.append(given[1].shape[1]), with_gelu(*given))[1]
    )
    for pooling in ("viewer", "snippet"):
        folder = tmp_path / pooling
        BiEncoder.create(Model(base=str(base), architecture="dpr", pooling=pooling)).save(folder)
        model = BiEncoder.load(folder, plain=True)
        packed = make_packed([model.layout.question("why " * (1 + n % 7)) for n in range(sequences)], 0, 2048)
        ended.clear()
        with torch.inference_mode():
            vectors = model.encode_packed_questions(packed)
        assert len(vectors) == sequences
        encoder: Any = model.encoders["question"]
        *earlier, last = [2048] * encoder.config.num_hidden_layers
        few = [READ_ROWS] * -(-sequences // READ_ROWS)
        assert ended == [*earlier, *(few if pooling == "viewer" else [last])]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_views_have_the_same_bits_beside_any_others(base: Path, tmp_path: Path, dtype: torch.dtype) -> None:
    """Where the last layer ends with more tokens than are multiplied at a time."""
    settings = Model(base=str(base), architecture="camvr", views=4, passage_length=96)
    BiEncoder.create(settings).save(tmp_path)
    model = BiEncoder.load(tmp_path, dtype, plain=True)
    passages = [training_material.passage(i, sentences=1 + i % 5) for i in range(40)]
    sequences = [sequence for passage in passages for sequence in model.layout.passage(passage)]
    assert sum(len(sequence.views) for sequence in sequences) > 2 * READ_ROWS
    order = random.Random(0).sample(range(len(sequences)), len(sequences))
    with torch.inference_mode():
        found = model.encode_packed_passages(make_packed(sequences, 0, 4096))
        others = model.encode_packed_passages(make_packed([sequences[i] for i in order], 0, 4096))
        for vectors, place in zip(others, order, strict=True):
            assert torch.equal(vectors, found[place])
        few = model.encode_packed_passages(make_packed(sequences[:3], 0, 4096))
        assert all(map(torch.equal, few, found))


def test_a_torch_that_has_onednn_has_the_names_of_its_layers() -> None:
    assert onednn.multiplies(torch.float32) == torch.backends.mkldnn.is_available()
    assert not onednn.multiplies(torch.float64)


def test_positions_of_their_own_are_heeded(folder: Path) -> None:
    slow, fast = BiEncoder.load(folder), BiEncoder.load(folder, plain=True)
    batch = make_batch([slow.layout.question(TEXTS[0])], 0, 1)
    batch["position_ids"] = torch.arange(batch["input_ids"].shape[1])[None] + 3
    with torch.inference_mode():
        assert torch.equal(fast.encode_questions(batch), slow.encode_questions(batch))


@given(st.lists(st.text(), min_size=1, max_size=4))
def test_tokens_are_those_of_transformers(tokenizers: tuple, texts: list[str]) -> None:
    slow, fast = tokenizers
    options = {"add_special_tokens": False, "split_special_tokens": True}
    assert fast(texts, **options)["input_ids"] == slow(texts, **options)["input_ids"]


@pytest.fixture(scope="module")
def tokenizers(base: Path) -> tuple:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(base), PlainTokenizer(base)


@pytest.mark.parametrize(
    ("file", "name", "value"),
    [
        ("config.json", "model_type", "roberta"),
        ("config.json", "hidden_act", "relu"),
        ("config.json", "position_embedding_type", "relative_key"),
        ("config.json", "is_decoder", True),
        ("tokenizer_config.json", "tokenizer_class", "BertJapaneseTokenizer"),
        ("tokenizer_config.json", "sep_token", {"content": "[SEP]", "lstrip": True}),
        ("model.safetensors", "", None),
        ("tokenizer.json", "", None),
    ],
)
def test_what_this_cannot_compute_is_left_to_transformers(
    base: Path, tmp_path: Path, file: str, name: str, value: object
) -> None:
    changed = tmp_path / "base"
    shutil.copytree(base, changed)
    assert is_plain(changed)
    if not name:
        (changed / file).unlink()
    else:
        settings = json.loads((changed / file).read_text())
        (changed / file).write_text(json.dumps({**settings, name: value}))
    assert not is_plain(changed)
