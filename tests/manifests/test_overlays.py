"""What is applied is built by kustomize, and every object is one that its kind allows."""

import copy
import re

import jsonschema
import pytest
import yaml

from tests.fixtures.manifest_schemas import validate
from tests.fixtures.overlays import (
    BUILT,
    MANIFESTS,
    ROOT,
    build,
    golden,
    kept_digest,
    needs_kustomize,
    of_kind,
    short,
    sources,
    sources_digest,
)

OBJECTS = [
    pytest.param(manifest, id=f"{short(folder)}-{manifest['kind']}-{manifest['metadata']['name']}")
    for folder in BUILT
    for manifest in golden(folder)
]


@pytest.mark.parametrize("folder", BUILT)
def test_the_kept_objects_are_those_of_these_sources(folder):
    """So that a change of `manifests/` is checked also where nothing can build it."""
    assert kept_digest(folder) == sources_digest(), "manifests/ has changed: run `make golden`"


@needs_kustomize
@pytest.mark.parametrize("folder", BUILT)
def test_each_overlay_builds(folder):
    assert build(folder) == golden(folder)


@needs_kustomize
@pytest.mark.parametrize("folder", ["overlays/gke-prod", "serving/overlays/gke", "serving/overlays/kserve"])
def test_another_project_is_one_file(folder, copied):
    """Workload Identity and the bucket follow the overlay's cloud.yaml."""
    cloud = copied / folder.replace("kserve", "gke") / "cloud.yaml"
    cloud.write_text(cloud.read_text().replace("my-project", "another"))
    kept, now = (yaml.safe_dump_all(made) for made in (golden(folder), build(folder)))
    assert now == re.sub("(@|(?:DESTINATION|value): gs://)my-project", r"\1another", kept) != kept
    assert "DOMAIN" not in now and "name: cloud" not in now


@pytest.mark.parametrize("manifest", OBJECTS)
def test_every_object_is_valid(manifest):
    validate(manifest)


PLACES = (
    "metadata",
    "spec",
    "spec.template.spec.containers.0",
    "spec.predictor",
    "spec.predictor.containers.0",
    "spec.workflowSpec.templates.0.container",
)


@pytest.mark.parametrize("manifest", OBJECTS)
def test_an_object_with_an_unknown_field_is_not(manifest):
    for place in PLACES:
        inner = changed = copy.deepcopy(manifest)
        for key in place.split("."):
            inner = inner[int(key)] if isinstance(inner, list) else (inner or {}).get(key)
        if inner:
            inner["speck"] = {}
            with pytest.raises(jsonschema.ValidationError):
                validate(changed)


def test_values_that_others_apis_refuse_are_refused():
    (service,), (schedule,) = of_kind(BUILT[-1], "InferenceService"), of_kind("argo", "CronWorkflow")
    for manifest, change in (
        (service, {"predictor": {**service["spec"]["predictor"], "minReplicas": "two"}}),
        (service, {"predictor": {**service["spec"]["predictor"], "deploymentStrategy": {"type": "Rolling"}}}),
        (schedule, {"schedules": ["0 0 3 * * 1"]}),
        (schedule, {"schedules": []}),
        (schedule, {"concurrencyPolicy": "Never"}),
        (schedule, {"timezone": "CET+1"}),
    ):
        with pytest.raises(jsonschema.ValidationError):
            validate({**manifest, "spec": {**manifest["spec"], **change}})


def test_a_base_and_a_component_are_in_some_overlay():
    """Nothing lies in `manifests/` that no test builds."""
    texts = {file.parent: file.read_text() for file in MANIFESTS.rglob("kustomization.yaml")}
    named = "".join(texts.values())
    used = {
        (folder / entry).resolve()
        for folder, text in texts.items()
        for part in ("resources", "components")
        for entry in yaml.safe_load(text).get(part, [])
    }
    for folder in sorted(texts):
        name = folder.relative_to(MANIFESTS).as_posix()
        assert name in BUILT or folder.resolve() in used, f"{name} is in no overlay"
    files = {file.name for file in sources()} - {"kustomization.yaml"}
    assert {name for name in files if f"- {name}\n" not in named and f"path: {name}\n" not in named} == set()


def test_the_server_is_the_version_that_the_library_speaks():
    (pinned,) = [
        line for line in (ROOT / "constraints.txt").read_text().split() if line.startswith("mlflow==")
    ]
    for folder in ("mlflow", "overlays/kind"):
        images = yaml.safe_load((MANIFESTS / folder / "kustomization.yaml").read_text())["images"]
        assert [image["newTag"] for image in images] == [f"v{pinned.removeprefix('mlflow==')}-full"]
