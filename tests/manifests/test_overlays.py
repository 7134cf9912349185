"""What is applied is built by kustomize, and every object is one that its kind allows."""

import copy
import shutil

import jsonschema
import pytest
import yaml

from tests.fixtures import overlays as built
from tests.fixtures.manifest_schemas import validate
from tests.fixtures.overlays import (
    BUILT,
    MANIFESTS,
    ROOT,
    build,
    golden,
    kept_digest,
    needs_kustomize,
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
def test_another_project_is_one_file(tmp_path, monkeypatch):
    """Workload Identity and the bucket follow the overlay's cloud.yaml."""
    shutil.copytree(MANIFESTS, tmp_path / "manifests")
    monkeypatch.setattr(built, "MANIFESTS", tmp_path / "manifests")
    cloud = tmp_path / "manifests/overlays/gke-prod/cloud.yaml"
    cloud.write_text(cloud.read_text().replace("my-project", "another"))
    text = yaml.safe_dump_all(build("overlays/gke-prod"))
    for expected in (
        "iam.gke.io/gcp-service-account: multiview-steps@another.iam.gserviceaccount.com",
        "iam.gke.io/gcp-service-account: multiview-runner@another.iam.gserviceaccount.com",
        "iam.gke.io/gcp-service-account: multiview-mlflow@another.iam.gserviceaccount.com",
        "MLFLOW_ARTIFACTS_DESTINATION: gs://another-multiview-prod/mlflow",
    ):
        assert expected in text
    assert "DOMAIN" not in text
    assert "name: cloud" not in text


@pytest.mark.parametrize("manifest", OBJECTS)
def test_every_object_is_valid(manifest):
    validate(manifest)


def mutations(manifest):
    """The object with an unknown field in each of its mappings of known fields, one after the other."""
    yield {**manifest, "speck": {}}
    yield {**manifest, "metadata": {**manifest["metadata"], "nam": "x"}}
    if isinstance(manifest.get("spec"), dict) and manifest["spec"]:
        yield {**manifest, "spec": {**manifest["spec"], "unknown": 1}}
    if manifest["kind"] in ("Deployment", "StatefulSet", "Job"):
        changed = copy.deepcopy(manifest)
        changed["spec"]["template"]["spec"]["containers"][0]["port"] = 80
        yield changed
    if manifest["kind"] == "InferenceService":
        predictor = manifest["spec"]["predictor"]
        for change in (
            {"minReplica": 2},
            {"minReplicas": "two"},
            {"deploymentStrategy": {"type": "Rolling"}},
            {"containers": [{**predictor["containers"][0], "port": 80}]},
        ):
            yield {**manifest, "spec": {"predictor": {**predictor, **change}}}
    if manifest["kind"] == "CronWorkflow":
        for change in (
            {"schedules": ["0 0 3 * * 1"]},
            {"schedules": []},
            {"schedule": "0 3 * * 1"},
            {"concurrencyPolicy": "Never"},
            {"timezone": "CET+1"},
        ):
            yield {**manifest, "spec": {**manifest["spec"], **change}}
        changed = copy.deepcopy(manifest)
        changed["spec"]["workflowSpec"]["templates"][0]["container"]["port"] = 80
        yield changed


@pytest.mark.parametrize("manifest", OBJECTS)
def test_an_altered_object_is_not(manifest):
    for changed in mutations(manifest):
        with pytest.raises(jsonschema.ValidationError):
            validate(changed)


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
