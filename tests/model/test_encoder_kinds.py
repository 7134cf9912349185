"""Each kind of base that people use, small and random, with a tokenizer of its kind, from its creation to its export."""

import json
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from multiview.artifacts.staging import LocalArtifact
from multiview.config import Config, Corpus, Encode, Model, Questions, Train
from multiview.encoding.encode import Encoder
from multiview.errors import InputError
from multiview.export.sentence_transformers import write_sentence_transformers
from multiview.model.base_model.checkpoint import staged_base
from multiview.model.batch import make_batch
from multiview.model.encoder import BiEncoder
from multiview.model.layouts import LAYOUTS
from multiview.steps.context import StepContext
from multiview.training.train import train
from tests.fixtures import training_material
from tests.fixtures.bases import KINDS, random_base
from tests.fixtures.events import RecordedEvents
from tests.fixtures.exported_models import exported_scores, scores_of

CAUSAL = {"qwen3"}
BY_PLACE = {"mpnet", "deberta-v2", "modernbert"}
"""Kinds whose attention also reads a token's place, whatever its position id: by relative positions or by a window."""
LAYOUT_POOLINGS = [
    *((name, "viewer") for name, made in LAYOUTS.items() if not made.as_base),
    *((name, "snippet") for name in ("dpr", "camvr")),
    ("dpr", "last"),
]
TRAINED = [*LAYOUT_POOLINGS, ("camvr", "both"), ("sentence-transformer", "snippet")]
PASSAGES = [training_material.passage(number, sentences=2 + number) for number in range(4)]


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def base(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_base(tmp_path_factory.mktemp("base"), kind)


def create(base: Path, architecture: str, pooling: str = "viewer", **options: Any) -> BiEncoder:
    settings: dict[str, Any] = {"architecture": architecture, "pooling": pooling, **options}
    return BiEncoder.create(
        Model(base=str(base), views=3, passage_length=128, question_length=16, **settings)
    )


def test_every_layout_has_the_same_views_whatever_is_beside_a_text(kind: str, base: Path) -> None:
    """A batch of one, too, whose restarting positions transformers could take for packed texts (MVR)."""
    for name, pooling in LAYOUT_POOLINGS:
        if kind in CAUSAL and pooling == "viewer" and not LAYOUTS[name].nested:
            continue  # refused (tests/model/test_encoder_bases.py)
        model = create(base, name, pooling, tied=True)
        one, other = (model.layout.passage(passage, ("Who won?",))[0] for passage in PASSAGES[1:3])
        assert len(one.input_ids) < len(other.input_ids)
        pad, views = model.tokenizer.pad_token_id, model.layout.max_views
        single, both = (make_batch(read, pad, views) for read in ([one], [one, other]))
        for attention in (model, model.with_eager_attention()) if name == "mvr" else (model,):
            with torch.inference_mode():
                alone, beside = (attention.encode_passages(batch)[0] for batch in (single, both))
            torch.testing.assert_close(alone, beside, atol=1e-4, rtol=1e-4, msg=f"{name} {pooling}")
            assert attention is model or attention.passage_attention(both).isfinite().all()


def test_mvr_has_all_viewer_tokens_at_one_position(kind: str, base: Path) -> None:
    """Equal tokens at equal positions have equal vectors, which they have not at natural positions."""
    if kind in CAUSAL:
        return
    model = create(base, "mvr", tied=True)
    (sequence,) = model.layout.passage(PASSAGES[3])
    batch = make_batch([sequence], model.tokenizer.pad_token_id, 3)
    batch["input_ids"][:, :3] = batch["input_ids"][0, 0]
    natural = dict(batch)
    del natural["position_ids"]
    with torch.inference_mode():
        together, apart = model.encode_passages(batch)[0], model.encode_passages(natural)[0]  # pyright: ignore[reportArgumentType]
    scale = apart.abs().max()
    assert ((together - together[0]).abs().max() < 1e-4 * scale) == (kind not in BY_PLACE)
    assert (apart - apart[0]).abs().max() > 1e-4 * scale


def test_a_base_is_trained_saved_loaded_searched_and_exported(kind: str, base: Path, tmp_path: Path) -> None:
    """With one of the layouts that admit it, which take turns over the kinds; with all of them under ALL_LAYOUTS."""
    admitted = [
        each for each in TRAINED if kind not in CAUSAL or each[1] != "viewer" or LAYOUTS[each[0]].nested
    ]
    turn = list(KINDS).index(kind) % len(admitted)
    for number, (name, pooling) in enumerate(admitted if os.environ.get("ALL_LAYOUTS") else [admitted[turn]]):
        _train_and_export(base, name, pooling, tmp_path / str(number))


def _train_and_export(base: Path, name: str, pooling: str, tmp_path: Path) -> None:
    start = LocalArtifact(tmp_path / "start", "start")
    create(base, name, pooling).save(start.path)
    questions = [training_material.question(number, passage) for number, passage in enumerate(PASSAGES)]
    negatives = {each.qid: [PASSAGES[(row + 1) % 4].id] for row, each in enumerate(questions)}
    data = training_material.training_inputs(tmp_path, PASSAGES, questions, negatives)
    chosen = Train(batch_size=2, max_steps=2, warmup_steps=0, learning_rate=1e-3, negatives=1)
    settings = Config.partial({"train": chosen, "questions": Questions(), "corpus": Corpus()})
    model, events = tmp_path / "model", RecordedEvents()
    train(StepContext(settings, {"start": start, **data}, {"model": model}, events))
    asked = [question.question for question in questions]
    before, after = (Encoder(folder, Encode()).question_vectors(asked) for folder in (start.path, model))
    assert np.isfinite(after).all() and not np.allclose(before, after, atol=1e-4)
    scores = scores_of(model, asked, PASSAGES)
    write_sentence_transformers(model, tmp_path / "exported")
    np.testing.assert_allclose(
        exported_scores(tmp_path / "exported", asked, PASSAGES), scores, rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize(("kind", "says"), [("mpnet", ".*MPNet.*"), ("bert", ".*")])
def test_activations_that_cannot_be_recomputed_are_refused_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, says: str
) -> None:
    """By a base, or by a version of transformers."""
    model = create(random_base(tmp_path, kind), "dpr")
    if kind == "bert":
        monkeypatch.delattr(PreTrainedModel, "activation_checkpointing_enable")
    with pytest.raises(InputError, match=f"^train.gradient_checkpointing: {says}; set train.chunk instead$"):
        model.checkpoint_activations()


def test_without_a_padding_token_the_end_of_a_text_is_padding_and_without_that_a_line_says_so(
    tmp_path: Path,
) -> None:
    base = random_base(tmp_path, "modernbert")
    file = base / "tokenizer_config.json"
    options = json.loads(file.read_text())
    del options["pad_token"]
    file.write_text(json.dumps({**options, "eos_token": "[SEP]"}))
    model = create(base, "mvr")
    assert model.tokenizer.pad_token == "[SEP]"
    model.save(tmp_path / "model")
    assert Encoder(tmp_path / "model", Encode()).question_vectors(["Who won?", "a " * 9]).shape == (2, 32)
    file.write_text(json.dumps({name: value for name, value in options.items() if name != "sep_token"}))
    with pytest.raises(
        InputError, match=f"^model.base: {base} has a tokenizer without a padding token; set its pad_token"
    ):
        create(base, "mvr")


def test_a_base_whose_vectors_are_not_of_its_width_is_refused(tmp_path: Path) -> None:
    base = random_base(tmp_path, "embedding_gemma2_text", embedding_dim=64)
    with pytest.raises(InputError, match="gives vectors of length 64, unlike its hidden_size 32; give"):
        create(base, "mvr")


def configured(base: Path, **changes: object) -> None:
    file = base / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation"])
def test_flash_attention_is_refused(tmp_path: Path, key: str) -> None:
    """It drops a mask without padding, and takes restarting positions of one row for several texts."""
    configured(random_base(tmp_path, "modernbert"), **{key: "flash_attention_2"})
    line = r"config.json asks for flash attention, .*; remove attn_implementation"
    with pytest.raises(InputError, match=line), staged_base(str(tmp_path)):
        pass


@pytest.mark.parametrize(
    ("code", "config", "is_refused"),
    [
        ({"AutoModel": "modeling.Qwen2Model"}, {}, True),
        ({"AutoModel": "modeling.Qwen2Model"}, {"is_causal": True}, True),
        ({"AutoModel": "modeling.Qwen2Model"}, {"is_causal": False}, False),
        ({"AutoModel": "modeling.NomicBertModel"}, {"model_type": "nomic_bert"}, False),
        ({"AutoConfig": "configuration.Config", "AutoModelForCausalLM": "modeling.LM"}, {}, False),
    ],
)
def test_a_plain_type_with_code_of_its_own_is_refused(
    tmp_path: Path, code: dict[str, str], config: dict[str, Any], is_refused: bool
) -> None:
    """It was loaded without the code that makes it read both ways, without a word."""
    base = random_base(tmp_path, "modernbert")
    for type_ in (
        *("qwen2", "qwen3", "llama", "mistral", "gemma2", "gemma3_text"),
        "bert",
        "roberta",
        "xlm-roberta",
    ):
        configured(base, **{"is_causal": None, "model_type": type_, "auto_map": code} | config)
        refused = pytest.raises(InputError, match=f"Qwen2Model, in auto_map.* a plain {type_}; .* is_causal")
        with refused if is_refused else nullcontext(), staged_base(str(base)):
            pass
