"""Sequences laid end to end: the vectors of padded batches, wherever a sequence lies."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModel

from multiview.config import Model
from multiview.model.batch import make_batch
from multiview.model.encoder import BiEncoder
from multiview.model.layouts import TokenSequence, View
from multiview.model.packed import make_packed, prepare_packing
from tests.fixtures import training_material
from tests.fixtures.encoded import MODELS

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 2000,
    "max_position_embeddings": 130,
    "pad_token_id": 1,
}


def sequences_of(model: BiEncoder) -> list[TokenSequence]:
    passages = [training_material.passage(i, sentences=1 + i % 5) for i in range(9)]
    return [sequence for passage in passages for sequence in model.layout.passage(passage, ["Who?"])]


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_packed_vectors_are_those_of_padded_batches(
    base: Path, tmp_path: Path, name: str, plain: bool
) -> None:
    chosen = {"views": 4, "passage_length": 96, "question_length": 32, "scale": 3, **MODELS[name]}
    settings = Model(base=str(base), **chosen)
    BiEncoder.create(settings).save(tmp_path)
    model = BiEncoder.load(tmp_path, plain=plain)
    sequences = sequences_of(model)
    questions = [model.layout.question("why " * (i + 1)) for i in range(5)]
    with torch.inference_mode():
        padded = model.encode_passages(make_batch(sequences, 0, model.layout.max_views))
        asked = model.encode_questions(make_batch(questions, 0, 1))
        assert model.prepare_packing()
        packed = model.encode_packed_passages(make_packed(sequences, 0, 1024))
        for sequence, views, expected in zip(sequences, packed, padded, strict=True):
            assert views.shape == (len(sequence.views), model.dim)
            torch.testing.assert_close(views, expected[: len(sequence.views)], rtol=1e-4, atol=1e-5)
        again = torch.cat(model.encode_packed_questions(make_packed(questions, 0, 128)))
        torch.testing.assert_close(again, asked, rtol=1e-4, atol=1e-5)
        # Padded batches are read as before, to the bit.
        assert torch.equal(model.encode_passages(make_batch(sequences, 0, model.layout.max_views)), padded)


@pytest.mark.parametrize("kind", ["bert", "roberta", "xlm-roberta", "camembert"])
def test_bases_that_pack_give_their_own_vectors(base: Path, tmp_path: Path, kind: str) -> None:
    BiEncoder.create(Model(base=str(base), architecture="dpr", tied=True)).save(tmp_path)
    model = BiEncoder.load(tmp_path)
    torch.manual_seed(0)
    model.encoders["passage"] = AutoModel.from_config(AutoConfig.for_model(kind, **SMALL)).eval()
    lengths = [2, 13, 24, 35, 46]
    sequences = [TokenSequence([*range(5, 4 + n), 2], (View(((0, n),)),)) for n in lengths]
    with torch.inference_mode():
        padded = model.encode_passages(make_batch(sequences, 1, 1))
        assert model.prepare_packing()
        packed = torch.stack(model.encode_packed_passages(make_packed(sequences, 1, 256)))
    torch.testing.assert_close(packed, padded, rtol=1e-4, atol=1e-5)


def test_a_base_whose_tokens_meet_elsewhere_is_padded() -> None:
    small = {name: SMALL[name] for name in SMALL if name != "pad_token_id"}
    assert not prepare_packing(AutoModel.from_config(AutoConfig.for_model("mpnet", **small)))
