"""Base models of the hub, from a server that speaks its protocol: pickled weights, revisions, and words for what is not there."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from multiview.errors import InputError
from multiview.model.base_model.checkpoint import base_fingerprint, staged_base
from multiview.model.base_model.loading import load_encoder
from tests.fixtures.hub_server import Hub, ask_at, hub_here
from tests.fixtures.payload import Payload
from tests.fixtures.tiny import tiny_bert

SAFETENSORS, PICKLE = "model.safetensors", "pytorch_model.bin"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models as folders: with a pickle beside safetensors, with a pickle alone, in parts, with code, without weights."""
    folder = tmp_path_factory.mktemp("hub")
    safe = tiny_bert(folder / "safe")
    (safe / "1_Pooling").mkdir()
    (safe / "1_Pooling" / "config.json").write_text("{}")
    tensors = load_file(safe / SAFETENSORS)
    parts = {f"pytorch_model-0000{part}-of-00002.bin": [*tensors][part - 1 :: 2] for part in (1, 2)}
    pickles = {
        "pickled": {PICKLE: tensors},
        "parts": {file: {name: tensors[name] for name in names} for file, names in parts.items()},
        "code": {PICKLE: {"w": Payload(folder / "ran")}},
        "empty": {},
    }
    for name, files in pickles.items():
        shutil.copytree(safe, folder / name, ignore=shutil.ignore_patterns("*.safetensors"))
        for file, content in files.items():
            torch.save(content, folder / name / file)
    places = {name: file for file, names in parts.items() for name in names}
    index = {"metadata": {"total_size": 1}, "weight_map": places}
    (folder / "parts" / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    torch.save({}, safe / PICKLE)
    return folder


@pytest.fixture
def hub(folder: Path, tmp_path: Path) -> Iterator[Hub]:
    models = {f"team/{each.name}": each for each in folder.iterdir() if each.is_dir()}
    with hub_here(Hub(models, {"main": "a" * 40, "v1": "b" * 40}), tmp_path / "cache") as served:
        yield served


def fetched(base: str) -> tuple[dict[str, str], set[str], dict[str, torch.Tensor]]:
    """Fingerprint, files and weights of a base model, which are those of the commit in the fingerprint."""
    found = base_fingerprint(base)
    with staged_base(base) as staged:
        assert staged.parts[-2:] == ("snapshots", found["commit"])
        files = {path.relative_to(staged).as_posix() for path in staged.rglob("*") if path.is_file()}
        return found, files, load_encoder(staged, torch.float32, base).state_dict()


@pytest.mark.parametrize("name", ["safe", "pickled", "parts"])
def test_a_model_comes_with_its_folders_of_modules_and_again_without_the_hub(
    hub: Hub, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Pickles are read as tensors, and not even fetched where there are safetensors."""
    first = fetched(f"team/{name}")
    assert first[0] == {"hub": f"team/{name}", "commit": "a" * 40}
    assert {"config.json", "1_Pooling/config.json"} <= first[1]
    assert (SAFETENSORS in hub.fetched) == (name == "safe") == (PICKLE not in hub.fetched and name != "parts")
    expected = load_file(folder / "safe" / SAFETENSORS)
    ask_at("http://127.0.0.1:9", monkeypatch)
    for found, files, weights in (first, fetched(f"team/{name}")):
        assert (found, files) == first[:2] and weights.keys() == expected.keys()
        assert all(torch.equal(weights[key], expected[key]) for key in weights)


def test_a_revision_is_a_branch_a_tag_or_a_commit(hub: Hub) -> None:
    for revision, commit in (("v1", "b" * 40), ("main", "a" * 40), ("b" * 40, "b" * 40)):
        assert fetched(f"team/safe@{revision}")[0] == {"hub": "team/safe", "commit": commit}


@pytest.mark.parametrize(
    ("base", "line"),
    [
        ("team/none", "team/none is neither a folder here nor a model of the hub"),
        ("team/safe@v2", "team/safe has no revision v2 on the hub"),
        (
            "team/empty",
            "team/empty holds no *.safetensors or pytorch_model*.bin; load and save the model once with transformers to "
            "convert it",
        ),
        (
            "team/code",
            "cannot load team/code: its weights are a pickle of more than tensors, and nothing else is read from one; save it "
            "anew with save_pretrained",
        ),
    ],
)
def test_what_cannot_be_had_is_told_by_the_hub_s_name(hub: Hub, folder: Path, base: str, line: str) -> None:
    with pytest.raises(InputError) as error:
        fetched(base)
    assert str(error.value) == f"model.base: {line}"
    assert not (folder / "ran").exists()


def test_a_hub_that_cannot_be_reached_is_told(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    ask_at("http://127.0.0.1:9", monkeypatch)
    with pytest.raises(
        InputError, match=r"^model.base: team/safe is no folder here, and the hub cannot be r"
    ):
        fetched("team/safe")
