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
from multiview.errors import InputError
from multiview.model.base_model import hub
from multiview.model.base_model.checkpoint import base_fingerprint
from multiview.model.base_model.files import PICKLED, TOKENIZERS
from multiview.plans import PIPELINES
from multiview.plans.plan import Plan
from multiview.steps.table import STEPS
from tests.fixtures.hub_listings import COMMIT, LISTINGS, RENAMED
from tests.fixtures.hub_server import Hub, hub_serving

PRESETS = sorted(
    file.name.removesuffix(".yaml") for file in (files("multiview.config") / "presets").iterdir()
)
DATA = STEPS["split"].fingerprint_path


@pytest.fixture
def served(monkeypatch, tmp_path) -> Iterator[Hub]:
    with hub_serving(Hub({}, listings={**LISTINGS}, renamed=RENAMED)) as server:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.url)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
        hub.commit_of.cache_clear()
        yield server
    hub.commit_of.cache_clear()


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


def test_a_preset_s_base_without_weights_is_refused(served):
    name = "Luyu/co-condenser-wiki"
    gone = [file for file in LISTINGS[name]["siblings"] if not file["rfilename"].endswith(".bin")]
    served.listings[name] = {**LISTINGS[name], "siblings": gone}
    with pytest.raises(InputError, match=f"model.base: {name} holds no .* or pytorch_model"):
        read_bases("paper-camvr", "training")


def test_a_base_without_a_tokenizer_is_refused(served):
    kept = [{"rfilename": file} for file in ("config.json", "model.safetensors", "modules.json")]
    served.listings["team/vectors"] = {**LISTINGS["Luyu/co-condenser-wiki"], "siblings": kept}
    with pytest.raises(InputError, match="model.base: team/vectors holds no tokenizer\\*.json or vocab"):
        base_fingerprint("team/vectors")


@pytest.mark.parametrize("name", LISTINGS)
def test_the_listings_have_the_form_that_the_hub_s_client_reads(name):
    """Every field is one that it knows, and what it keeps of them is what we read."""
    answer = json.loads(json.dumps(LISTINGS[name]))
    info = ModelInfo(**answer)
    unknown = vars(info).keys() - ModelInfo.__dataclass_fields__.keys()
    assert unknown <= {"_id", "modelId", "lastModified", "cardData", "transformersInfo"}
    assert info.sha == COMMIT and info.siblings and info.transformers_info
    assert "config.json" in {file.rfilename for file in info.siblings}
    assert bool(info.safetensors) == (name != "Luyu/co-condenser-wiki")


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
