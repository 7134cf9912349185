"""docs/cluster.md and manifests/README.md show what is there: the cluster itself cannot be had here."""

import re
import shlex

import pytest
import yaml

from multiview.config.overrides import gather, validate
from multiview.plans import PIPELINES
from pipelines.kubeflow.versions import check_version, takes
from tests.fixtures.overlays import (
    BUILT,
    MANIFESTS,
    ROOT,
    Manifest,
    amount,
    build,
    golden,
    name_of,
    needs_kustomize,
    of_kind,
    pods,
    profiles,
    secrets,
)

GUIDE = (ROOT / "docs" / "cluster.md").read_text()
README = (MANIFESTS / "README.md").read_text()


def lines(start: str) -> list[str]:
    """Commands of the guide's code blocks, continued lines joined."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", GUIDE, re.M | re.S)
    joined = "".join(block for language, block in blocks if not language).replace("\\\n", " ")
    return [line for line in joined.splitlines() if start in line]


def test_what_is_applied_is_there():
    applied = re.findall(r"kubectl (?:apply -k|kustomize) manifests/([\w/-]+)", GUIDE + README)
    assert set(applied) <= set(BUILT)
    for profile in re.findall(r"MULTIVIEW_PROFILES=(\S+)", GUIDE):
        assert (ROOT / profile).is_file()
    rows = re.findall(r"^\| `([^|]+)` \|", README, re.M)
    folders = {folder for row in rows for folder in row.split("`, `")}
    for folder in folders:
        assert (MANIFESTS / folder).is_dir(), folder
    there = {path.name for path in MANIFESTS.iterdir() if path.is_dir()}
    assert there == {folder.partition("/")[0] for folder in folders}


def test_what_is_waited_for_and_forwarded_is_there():
    waited = [
        line for line in lines("kubectl --namespace multiview") if " wait " in line or "forward" in line
    ]
    assert len(waited) >= 4
    applied = {f"{m['kind'].lower()}/{name_of(m)[1]}" for folder in BUILT for m in golden(folder)}
    for line in waited:
        (target,) = re.findall(r"\b(?:deployment|job|service)/\S+", line)
        assert target in applied


def test_the_version_that_it_installs_takes_the_profile():
    (version,) = {line.rpartition("=")[2] for line in lines("export PIPELINE_VERSION=")}
    (profile,) = profiles("overlays/kind").values()
    config = validate(profile["settings"])
    assert config.kubeflow.run_as_non_root is None and check_version(version) is None
    assert takes(version, "run_as_non_root"), "its pods fulfil the pod-security level restricted"


@pytest.mark.parametrize("line", lines("python -m pipelines submit"))
def test_runs_have_settings_that_there_are(line):
    words = shlex.split(line)
    pipeline = words[words.index("submit") + 1]
    preset = words[words.index("--preset") + 1]
    settings = [words[n + 1] for n, word in enumerate(words) if word == "--set"]
    overrides = gather(preset, settings)
    validate(overrides)
    assert PIPELINES[pipeline](overrides).nodes


def keys(pod: Manifest, secret: str) -> set[str]:
    """Keys of a secret that a pod refers to one by one."""
    found = {
        item["key"]
        for volume in pod.get("volumes", [])
        if volume.get("secret", {}).get("secretName") == secret
        for item in volume["secret"]["items"]
    }
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        for variable in container.get("env", []):
            reference = variable.get("valueFrom", {}).get("secretKeyRef")
            if reference and reference["name"] == secret:
                found.add(reference["key"])
    return found


@needs_kustomize
def test_the_way_for_one_user_is_built_as_the_guide_says(copied):
    """What it adds to an overlay for Google Cloud makes the namespace, and the steps' account where they run."""
    (added,) = re.findall(r"^```yaml\n(resources:.*?)^```", GUIDE, re.M | re.S)
    overlay = copied / "overlays/gke-dev/kustomization.yaml"
    settings = yaml.safe_load(overlay.read_text())
    for name, places in yaml.safe_load(added).items():
        settings[name] += places
    overlay.write_text(yaml.safe_dump(settings))
    made = build("overlays/gke-dev")
    (namespace,) = [m for m in made if m["kind"] == "Namespace"]
    assert namespace["metadata"]["name"] == "multiview"
    assert not any("part-of" in label for label in namespace["metadata"]["labels"])
    accounts = {name_of(m): m["metadata"] for m in made if m["kind"] == "ServiceAccount"}
    of_steps = accounts["kubeflow", "multiview-steps"]["annotations"]
    assert of_steps["iam.gke.io/gcp-service-account"].startswith("multiview-steps@my-project.")


def test_the_driver_that_is_asked_for_knows_the_images_cuda():
    """GKE's default driver may be older than CUDA 13 needs."""
    (pool,) = lines("node-pools create")
    assert "gpu-driver-version=latest" in pool
    lock = (ROOT / "images" / "gpu" / "requirements.lock").read_text()
    assert "nvidia-cudnn-cu13==" in lock and "580 or later" in GUIDE


def test_secrets_are_made_with_the_keys_that_pods_read():
    (made,) = [line for line in lines("generic mlflow-database") if "--from-literal=password" in line]
    (bucket,) = lines("generic multiview-bucket")
    given = {"mlflow-database": made, "multiview-bucket": bucket}
    for _, pod in pods("overlays/kind"):
        for secret in secrets(pod):
            assert keys(pod, secret) <= set(re.findall(r"--from-literal=([\w.]+)=", given[secret]))


def test_the_database_is_reached_as_the_secret_says():
    (made,) = [line for line in lines("generic mlflow-database") if "--from-literal=password" in line]
    (host, port) = re.findall(r"@(\w+):(\d+)/mlflow", made)[0]
    (service,) = [m for m in of_kind("overlays/kind", "Service") if m["metadata"]["name"] == host]
    assert [p["port"] for p in service["spec"]["ports"]] == [int(port)]


MEMORY = {"g2-standard-8": 32e9}
"""Of Google's machines, in bytes."""


@pytest.mark.parametrize("folder", ["overlays/gke-dev", "overlays/gke-prod"])
def test_a_gpu_step_fits_on_a_machine_of_the_pool(folder):
    """GKE keeps up to 3.6 GB of such a machine, and the agents of each node take some more."""
    (machine,) = re.findall(r"--machine-type (\S+)", "".join(lines("node-pools create")))
    (profile,) = profiles(folder).values()
    assert amount(validate(profile["settings"]).kubeflow.gpu.memory) <= MEMORY[machine] - 5e9
