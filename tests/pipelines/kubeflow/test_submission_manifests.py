"""Pipelines as objects of Kubernetes: valid, named by their content, the same IR as otherwise."""

import copy
import hashlib

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner

from multiview.errors import InputError
from multiview.plans.request import Request
from pipelines import __main__ as pipelines
from pipelines.kubeflow.compile import compile_request
from pipelines.kubeflow.submission import package, write_manifests
from tests.fixtures.manifest_schemas import validate


def documents(path):
    return list(yaml.safe_load_all(path.read_text()))


IMAGES: dict[str, str] = dict.fromkeys(
    ("MULTIVIEW_CPU_IMAGE", "MULTIVIEW_GPU_IMAGE"), "registry.example/multiview:1"
)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    out = tmp_path_factory.mktemp("resources")
    command = ["compile", "training", "--manifests", "--out", str(out)]
    result = CliRunner().invoke(pipelines.app, command, env=IMAGES)
    assert result.exit_code == 0, result.output
    return documents(out / "training.yaml")


def test_a_pipeline_and_its_version_are_valid(written):
    pipeline, version = written
    assert [manifest["kind"] for manifest in written] == ["Pipeline", "PipelineVersion"]
    for manifest in written:
        validate(manifest)
        for changed in ({**manifest, "speck": 1}, {**manifest, "spec": {**manifest["spec"], "nam": "x"}}):
            with pytest.raises(jsonschema.ValidationError):
                validate(changed)
    altered = copy.deepcopy(version)
    del altered["spec"]["pipelineSpec"]["root"]
    with pytest.raises(jsonschema.ValidationError):
        validate(altered)
    assert version["spec"]["pipelineName"] == pipeline["metadata"]["name"] == "multiview-training"


def test_the_ir_is_that_of_a_package(written, tmp_path):
    compiled = compile_request(Request.make("training", {}), tmp_path / "p.yaml")
    package = documents(compiled)
    digest = hashlib.sha256(compiled.read_bytes()).hexdigest()
    assert written[1]["metadata"]["name"] == f"training-{digest[:12]}"
    spec = written[1]["spec"]
    assert [spec["pipelineSpec"], spec["platformSpec"]] == package


def test_submit_finds_what_was_applied(written):
    """It looks both up by their names; a Pipeline without a display name of its own is shown by its name."""
    names = package(Request.make("training", {}))
    pipeline, version = written
    assert pipeline["metadata"]["name"] == names.pipeline
    assert pipeline["spec"].get("displayName", names.pipeline) == names.pipeline
    assert version["metadata"]["name"] == version["spec"]["displayName"] == names.version


@pytest.mark.parametrize("name", IMAGES)
def test_images_must_be_named(name, monkeypatch, tmp_path):
    """Their defaults are names that only a machine with images of its own knows."""
    for other, image in IMAGES.items():
        monkeypatch.setenv(other, image)
    monkeypatch.delenv(name)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=f"is not named: set {name}"):
        write_manifests(Request.make("training", {}), tmp_path / "empty" / "t.yaml")
    assert not list((tmp_path / "empty").iterdir())


def test_another_setting_is_another_version(written, tmp_path, monkeypatch):
    """Kubeflow refuses to change a version."""
    for name, image in IMAGES.items():
        monkeypatch.setenv(name, image)
    overrides = {"kubeflow": {"secrets": {"bucket": "multiview-bucket"}}}
    _, version = documents(write_manifests(Request.make("training", overrides), tmp_path / "t.yaml"))
    assert version["metadata"]["name"] != written[1]["metadata"]["name"]
    assert "AWS_SECRET_ACCESS_KEY" in str(version["spec"]["platformSpec"])
    assert "multiview-bucket" in str(version["spec"]["platformSpec"])
