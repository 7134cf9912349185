"""Bases that cannot encode, or that read nothing before the tokens that a layout pools."""

import json
from pathlib import Path

import pytest
import torch

from multiview.config import Model
from multiview.errors import InputError
from multiview.model.encoder import BiEncoder
from tests.fixtures.bases import random_base


def create(base: Path, architecture: str, pooling: str = "viewer") -> BiEncoder:
    return BiEncoder.create(
        Model(base=str(base), architecture=architecture, pooling=pooling, views=3, passage_length=64)  # pyright: ignore[reportArgumentType]
    )


@pytest.mark.parametrize("kind", ["qwen3", "gemma3_text", "mamba"])
def test_a_causal_base_is_refused_where_the_first_tokens_are_pooled(kind: str, tmp_path: Path) -> None:
    base = random_base(tmp_path, kind, use_bidirectional_attention=False)
    everything = ("dpr", "me-bert", "mvr", "camvr", "dual-cross", "sentence", "equal-splits")
    for name in everything if kind == "qwen3" else ("dpr", "mvr"):
        line = f"^model.base: {base} \\({kind}\\) gives .* it is causal, and architecture {name} pools tokens that read no text .*; give"
        with pytest.raises(InputError, match=line):
            create(base, name)
    for name in ("dpr", "camvr", "sentence"):
        assert create(base, name, "snippet").dim == 32
    assert create(base, "dpr", "last").dim == create(base, "meta").dim == 32


def test_the_same_architecture_is_admitted_where_it_reads_both_ways(tmp_path: Path) -> None:
    base = random_base(tmp_path, "gemma3_text")
    assert create(base, "mvr").dim == 32


@pytest.mark.parametrize(
    ("kind", "options", "line"),
    [
        ("lfm2", {"num_key_value_heads": 8}, r"\(lfm2\) cannot encode: RuntimeError: .*; give an encoder such as BERT"),
        ("canine", {}, "a CanineModel has no word embeddings; give an encoder such as BERT"),
        ("vit", {}, "a ViTModel has no word embeddings; give an encoder such as BERT"),
        ("fnet", {}, r"\(fnet\) reads padding: a text would have another vector beside a longer one; give an encoder"),
        ("convbert", {"embedding_size": 32}, r"\(convbert\) reads padding: .*; give an encoder"),
    ],
)  # fmt: skip
def test_a_base_that_cannot_encode_is_refused(
    kind: str, options: dict[str, object], line: str, tmp_path: Path
) -> None:
    base = random_base(tmp_path, kind, **options)
    with pytest.raises(InputError, match=f"^model.base: .*{line}") as error:
        create(base, "camvr", "snippet")
    assert "\n" not in str(error.value)


def test_a_decoder_that_its_config_does_not_mention_is_refused(tmp_path: Path) -> None:
    base = random_base(tmp_path, "bart")
    config = json.loads((base / "config.json").read_text())
    del config["is_encoder_decoder"], config["architectures"]
    (base / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        InputError, match="^model.base: .* is an encoder-decoder; give an encoder such as BERT"
    ):
        create(base, "dpr", "last")


def test_a_long_text_is_read_as_it_is_after_short_ones(tmp_path: Path) -> None:
    """BigBird attends otherwise to long texts, until the first short one comes."""
    base = random_base(tmp_path / "base", "big_bird", block_size=2, num_random_blocks=1)
    create(base, "dpr", "snippet").save(tmp_path / "model")
    encoder = BiEncoder.load(tmp_path / "model").eval().encoders["passage"]
    long, short = torch.ones(1, 60, dtype=torch.int64), torch.ones(1, 4, dtype=torch.int64)
    with torch.inference_mode():
        before, _, after = (encoder(each).last_hidden_state for each in (long, short, long))
    assert torch.equal(before, after)
