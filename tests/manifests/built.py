"""The overlays as kustomize builds them, kept in `golden/` so that what is in them can be checked where
there is no kustomize. `python -m tests.manifests.built` writes them anew.
"""

import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

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


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name in BUILT:
        text = yaml.safe_dump_all(build(name), sort_keys=True, width=110)
        _golden_file(name).write_text(f"# Built from manifests/ of sha256 {sources_digest()}\n---\n{text}")
        print(_golden_file(name))
