"""The overlays as kustomize builds them, kept in `golden/` so that what is in them can be checked where
there is no kustomize. `python -m tests.manifests.built` writes them anew.
"""

import hashlib
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fixtures.manifest_schemas import pod_of_workflow

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests"
GOLDEN = Path(__file__).parent / "golden"
BUILT = ("overlays/kind", "overlays/gke-dev", "overlays/gke-prod", "argo")
"""What is applied: folders of `manifests/`."""

Manifest = dict[str, Any]


def kustomize() -> list[str] | None:
    """The command that builds a folder: kustomize itself or kubectl's; None where neither is installed."""
    if shutil.which("kustomize"):
        return ["kustomize", "build"]
    return ["kubectl", "kustomize"] if shutil.which("kubectl") else None


needs_kustomize = pytest.mark.skipif(kustomize() is None, reason="needs kustomize or kubectl on the PATH")


def build(folder: str) -> list[Manifest]:
    """The objects of a folder of `manifests/`, built now. Raises CalledProcessError."""
    command = kustomize()
    assert command is not None
    built = subprocess.run(
        [*command, str(MANIFESTS / folder)], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    return list(yaml.safe_load_all(built))


def golden(folder: str) -> list[Manifest]:
    """The objects of a folder as they are kept."""
    return list(yaml.safe_load_all(_golden_file(folder).read_text()))


def sources() -> list[Path]:
    """The files that kustomize reads."""
    return sorted(
        file for file in MANIFESTS.rglob("*.yaml") if file.relative_to(MANIFESTS).parts[0] != "schedules"
    )


def sources_digest() -> str:
    """A digest of all that kustomize reads."""
    digest = hashlib.sha256()
    for file in sources():
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"{file.relative_to(MANIFESTS).as_posix()} {content}\n".encode())
    return digest.hexdigest()


def kept_digest(folder: str) -> str:
    """The digest of the sources that the kept objects were built from."""
    return _golden_file(folder).read_text().partition("\n")[0].rpartition(" ")[2]


def _golden_file(folder: str) -> Path:
    return GOLDEN / f"{folder.rpartition('/')[2]}.yaml"


OVERLAYS = [folder for folder in BUILT if folder.startswith("overlays/")]

QUANTITIES = {"": 1, "m": 1e-3, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def of_kind(folder: str, *kinds: str) -> list[Manifest]:
    return [manifest for manifest in golden(folder) if manifest["kind"] in kinds]


def name_of(manifest: Manifest) -> tuple[str, str]:
    return manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"]


def pods(folder: str) -> list[tuple[Manifest, Manifest]]:
    """Each object that makes pods, with the pod's spec."""
    templates = [
        (manifest, manifest["spec"]["template"]["spec"])
        for manifest in of_kind(folder, "Deployment", "StatefulSet", "Job")
    ]
    workflows = [
        (manifest, pod_of_workflow(manifest)["spec"]) for manifest in of_kind(folder, "CronWorkflow")
    ]
    return templates + workflows


def profiles(folder: str) -> dict[str, Manifest]:
    return yaml.safe_load((MANIFESTS / folder / "profile.yaml").read_text())


def secrets(pod: Manifest) -> set[str]:
    """Names of the secrets that a pod refers to."""
    found = {v["secret"]["secretName"] for v in pod.get("volumes", []) if "secret" in v}
    for container in containers(pod):
        for variable in container.get("env", []):
            if "secretKeyRef" in variable.get("valueFrom", {}):
                found.add(variable["valueFrom"]["secretKeyRef"]["name"])
        found |= {s["secretRef"]["name"] for s in container.get("envFrom", []) if "secretRef" in s}
    return found


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for part in value.values() for text in strings(part)]
    if isinstance(value, list):
        return [text for part in value for text in strings(part)]
    return [value] if isinstance(value, str) else []


def amount(quantity: str) -> float:
    number, unit = re.fullmatch(r"([0-9.]+)(\w*)", str(quantity)).groups()  # type: ignore[union-attr]
    return float(number) * QUANTITIES[unit]


def containers(pod: Manifest) -> list[Manifest]:
    return [*pod.get("initContainers", []), *pod["containers"]]


def every_pod() -> list[Any]:
    """The objects that make pods, with the pods' specs, as parameters of tests."""
    return [
        pytest.param(manifest, pod, id=f"{folder.rpartition('/')[2]}-{manifest['metadata']['name']}")
        for folder in BUILT
        for manifest, pod in pods(folder)
    ]


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name in BUILT:
        text = yaml.safe_dump_all(build(name), sort_keys=True, width=110)
        _golden_file(name).write_text(f"# Built from manifests/ of sha256 {sources_digest()}\n---\n{text}")
        print(_golden_file(name))
