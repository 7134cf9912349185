"""The base models of all presets, checked against what the hub says of them before any work starts."""

import json
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib.resources import files
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest
from huggingface_hub import ModelInfo
from huggingface_hub.constants import ENDPOINT

from multiview.config.overrides import gather
from multiview.model.base_model.files import PICKLED, TOKENIZERS
from multiview.plans import PIPELINES
from multiview.plans.plan import Plan
from multiview.steps.table import STEPS
from tests.fixtures.hub_listings import COMMIT, LISTINGS, RENAMED
from tests.fixtures.hub_server import Hub, hub_here

PRESETS = sorted(
    file.name.removesuffix(".yaml") for file in (files("multiview.config") / "presets").iterdir()
)
DATA = STEPS["split"].fingerprint_path


@pytest.fixture
def served(tmp_path) -> Iterator[Hub]:
    with hub_here(Hub({}, listings={**LISTINGS}, renamed=RENAMED), tmp_path) as hub:
        yield hub


def read_bases(preset: str | None, pipeline: str) -> list[dict[str, str]]:
    """What a run identifies its base models by; its data is left out."""
    whole = PIPELINES[pipeline](gather(preset, []))
    nodes = {
        path: node
        for path, node in whole.nodes.items()
        if node.step.fingerprint_path and node.step.fingerprint_path != DATA
    }
    return list(Plan(whole.name, nodes=nodes).fingerprints(None).values())  # pyright: ignore[reportReturnType]


@pytest.mark.parametrize("pipeline", ["training", "comparison"])
@pytest.mark.parametrize("preset", [None, *PRESETS])
def test_every_preset_s_base_models_are_there(served, preset, pipeline):
    found = read_bases(preset, pipeline)
    assert any(base for base in found)
    for base in found:
        assert base.keys() in ({"files"}, {"hub", "commit"}, set())
        if "hub" in base:
            assert base["commit"] == COMMIT and RENAMED.get(base["hub"], base["hub"]) in LISTINGS


@pytest.mark.acceptance
@pytest.mark.parametrize("name", LISTINGS)
def test_the_hub_itself_says_the_same(name):
    """Where it can be reached: the listings are written by hand."""
    try:
        with urlopen(f"{ENDPOINT}/api/models/{name}", timeout=20) as answer:
            info = ModelInfo(**json.load(answer))
    except HTTPError:
        raise
    except URLError as error:
        pytest.skip(f"the hub cannot be reached: {error.reason}")
    assert info.id == name
    listed = [file["rfilename"] for file in LISTINGS[name]["siblings"]]
    assert what_is_there(listed) == what_is_there([file.rfilename for file in info.siblings or []])


def what_is_there(files: list[str]) -> dict[str, bool]:
    """What a base model is judged by."""
    kinds = {"weights": ("*.safetensors",), "pickles": (PICKLED,), "tokenizer": TOKENIZERS}
    return {
        kind: any(fnmatch(file, pattern) for file in files for pattern in patterns)
        for kind, patterns in kinds.items()
    }
