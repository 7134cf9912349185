"""Base models of the hub, from a server that speaks its protocol: pickled weights, revisions, and words for what is not there."""

import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.fixtures.hub_server import Hub, hub_serving
from tests.fixtures.payload import Payload
from tests.fixtures.tiny import tiny_bert

ASK = """
import json, sys, torch
from pathlib import Path
from safetensors.torch import save_file
from multiview.errors import InputError
from multiview.model.base_model.checkpoint import base_fingerprint, staged_base
from multiview.model.base_model.loading import load_encoder
try:
    found = base_fingerprint(sys.argv[1])
    with staged_base(sys.argv[1]) as folder:
        save_file(load_encoder(folder, torch.float32, sys.argv[1]).state_dict(), sys.argv[2])
        files = [str(f.relative_to(folder)) for p in ("*", "*/*") for f in Path(folder).glob(p) if f.is_file()]
        print(json.dumps([found, sorted(files)]))
except InputError as error:
    print(json.dumps(str(error)))
"""
"""Fetches and loads a base model in a process of its own: the hub's client reads its address when it is imported."""


@pytest.fixture(scope="module")
def bert(tmp_path_factory) -> Path:
    return tiny_bert(tmp_path_factory.mktemp("hub") / "bert")


def pickled(bert: Path, folder: Path, weights: dict[str, object]) -> Path:
    """A checkpoint with weights as files of pickles alone, by their names."""
    shutil.copytree(bert, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    for name, content in weights.items():
        torch.save(content, folder / name)
    return folder


@pytest.fixture
def served(bert, tmp_path) -> Iterator[Hub]:
    tensors = load_file(bert / "model.safetensors")
    first = dict(list(tensors.items())[:3])
    rest = {name: tensor for name, tensor in tensors.items() if name not in first}
    models = {
        "team/safe": bert,
        "team/pickled": pickled(bert, tmp_path / "pickled", {"pytorch_model.bin": tensors}),
        "team/parts": pickled(
            bert,
            tmp_path / "parts",
            {"pytorch_model-00001-of-00002.bin": first, "pytorch_model-00002-of-00002.bin": rest},
        ),
        "team/code": pickled(
            bert, tmp_path / "code", {"pytorch_model.bin": {"w": Payload(tmp_path / "ran")}}
        ),
        "team/empty": pickled(bert, tmp_path / "empty", {}),
    }
    places = {name: f"pytorch_model-0000{2 - (name in first)}-of-00002.bin" for name in tensors}
    index = {"metadata": {"total_size": 1}, "weight_map": places}
    (tmp_path / "parts" / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    commits = {"main": "a" * 40, "v1": "b" * 40}
    with hub_serving(Hub(models, commits)) as hub:
        yield hub


@pytest.fixture
def ask(served, tmp_path) -> Callable[..., list | str]:
    """Fingerprint and files of a base, after its weights were written into a file; or the error's line."""

    def fetch(base: str, **variables: str) -> list | str:
        variables = {
            "HF_ENDPOINT": served.url,
            "HF_HOME": str(tmp_path / "hf"),
            "HF_HUB_OFFLINE": "0",
            **variables,
        }
        command = [sys.executable, "-c", ASK, base, str(tmp_path / "weights.safetensors")]
        done = subprocess.run(
            command, env=os.environ | variables, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return fetch


@pytest.mark.parametrize("name", ["team/pickled", "team/parts"])
def test_pickled_weights_are_read_as_tensors(name, served, ask, bert, tmp_path):
    found, files = ask(name)
    assert found == {"hub": name, "commit": "a" * 40}
    assert "model.safetensors" not in files
    weights, expected = load_file(tmp_path / "weights.safetensors"), load_file(bert / "model.safetensors")
    assert weights.keys() == {key for key in expected if not key.startswith("pooler.")}
    assert all(torch.equal(weights[key], expected[key]) for key in weights)
    served.url = "http://127.0.0.1:9"
    assert ask(name) == [found, files], "without the hub, from its cache"


@pytest.mark.parametrize("name", ["team/safe", "team/pickled"])
def test_the_folders_of_modules_come_along(name, served, ask):
    module = served.models[name] / "1_Pooling"
    module.mkdir()
    (module / "config.json").write_text("{}")
    _, files = ask(name)
    shutil.rmtree(module)
    assert {"config.json", "1_Pooling/config.json"} <= set(files)


def test_pickles_are_not_even_fetched_where_there_are_safetensors(served, ask, bert):
    torch.save({}, bert / "pytorch_model.bin")
    ask("team/safe")
    (bert / "pytorch_model.bin").unlink()
    assert "model.safetensors" in served.fetched and "pytorch_model.bin" not in served.fetched


def test_code_in_a_pickle_is_not_run(ask, tmp_path):
    line = ask("team/code")
    assert line == (
        "model.base: cannot load team/code: its weights are a pickle of more than tensors, and nothing else is read from one; "
        "save it anew with save_pretrained"
    )
    assert not (tmp_path / "ran").exists()
    pickle.loads(pickle.dumps(Payload(tmp_path / "ran")))
    assert (tmp_path / "ran").exists(), "as it would have been"


def test_a_revision_is_a_branch_a_tag_or_a_commit(ask):
    for revision, commit in (("v1", "b" * 40), ("main", "a" * 40), ("b" * 40, "b" * 40)):
        found, _ = ask(f"team/safe@{revision}")
        assert found == {"hub": "team/safe", "commit": commit}


@pytest.mark.parametrize(
    ("base", "line"),
    [
        ("team/none", "model.base: team/none is neither a folder here nor a model of the hub"),
        ("team/safe@v2", "model.base: team/safe has no revision v2 on the hub"),
        (
            "team/empty",
            "model.base: team/empty holds no *.safetensors or pytorch_model*.bin; load and save the model once with transformers "
            "to convert it",
        ),
    ],
)
def test_what_is_not_there_is_told_by_the_hub_s_name(ask, base, line):
    assert ask(base) == line
