"""Bases that cannot encode, or that read nothing before the tokens that a layout pools."""

from pathlib import Path

import pytest

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
