"""The locks of the images: every package that is installed, by version and hash."""

import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from images.packages import IMAGES, PYTHON, locks
from tests.fixtures.locks import entries, version
from tests.fixtures.project import ROOT

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
FILES = list(locks(SETTINGS))
WHOLE = [file for file in FILES if file.endswith("requirements.lock")]
"""Locks that name all that a package needs in turn."""
CUDA = re.compile(r"nvidia-|cuda-|triton$")
TARGET = {
    "implementation_name": "cpython",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_system": "Linux",
    "python_full_version": f"{PYTHON}.0",
    "python_version": PYTHON,
    "sys_platform": "linux",
}
"""What markers are evaluated for."""


def needed(name: str, locked: str) -> list[str] | None:
    """What a package says that it needs; None where another version of it is installed here, or none. torch's build for
    CPUs speaks for that with CUDA, not the other way round."""
    try:
        installed = metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
    return (metadata.requires(name) or []) if installed in (locked, f"{locked}+cpu") else None


@pytest.mark.parametrize("file", FILES)
def test_every_package_has_one_version_and_hashes(file):
    assert entries(file)
    for requirement, hashes in entries(file).values():
        assert version(requirement)
        assert hashes and all(re.fullmatch(r"sha256:[0-9a-f]{64}", text) for text in hashes), requirement.name


@pytest.mark.parametrize("file", FILES)
def test_a_lock_satisfies_the_project_and_its_constraints(file):
    locked = entries(file)
    wanted, _ = locks(SETTINGS)[file]
    constraints = (ROOT / "constraints.txt").read_text().split()
    for requirement in map(Requirement, [*wanted, *constraints]):
        name = canonicalize_name(requirement.name)
        if requirement.marker and not requirement.marker.evaluate({**TARGET, "extra": ""}):
            continue
        if str(requirement) in constraints and name not in locked:
            continue
        assert requirement.specifier.contains(version(locked[name][0]), prereleases=True), requirement


@pytest.mark.parametrize("file", WHOLE)
def test_a_lock_is_what_the_project_needs_and_all_that_it_needs_in_turn(file):
    """By what packages themselves say, as far as they are installed here in that version: CUDA's are not. `pip check`
    says the same of the image while it is built."""
    locked = entries(file)
    reached: set[str] = set()
    unknown: set[str] = set()
    open_ends = [(Requirement(text), "") for text in locks(SETTINGS)[file][0]]
    while open_ends:
        requirement, extra = open_ends.pop()
        if requirement.marker and not requirement.marker.evaluate({**TARGET, "extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        assert name in locked, f"{name} is not in {file}: run `make lock`"
        for part in ("", *requirement.extras):
            if f"{name}[{part}]" in reached:
                continue
            reached.add(f"{name}[{part}]")
            needs = needed(name, version(locked[name][0]))
            if needs is None:
                unknown.add(name)
            open_ends += [(Requirement(text), part) for text in needs or []]
    strays = set(locked) - {name.partition("[")[0] for name in reached}
    if "gpu" in file:  # torch's CUDA, which the build without CUDA does not name
        strays -= {name for name in strays if CUDA.match(name)}
    if not unknown:
        assert not strays, f"nothing needs {sorted(strays)}: run `make lock`"


def test_images_of_steps_differ_in_torch_and_its_cuda_alone():
    """One CUDA: faiss would bring a second one."""
    cpu, gpu = (entries(f"images/{image}/requirements.lock") for image in ("cpu", "gpu"))
    more = set(gpu) - set(cpu)
    assert set(cpu) <= set(gpu)
    assert all(CUDA.match(name) for name in more), more
    assert not [name for name in gpu if re.search(r"cu1[0-2]$", name)]
    differing = {name for name in cpu if version(cpu[name][0]) != version(gpu[name][0])}
    assert differing == {"torch"}
    assert version(cpu["torch"][0]) == version(gpu["torch"][0]) + "+cpu"


@pytest.mark.acceptance
def test_bills_of_materials_name_every_package(tmp_path):
    """Its tool is fetched from the package index."""
    files = [f"dist/sbom/{image}.cdx.json" for image in IMAGES]
    for file in files:
        (ROOT / file).unlink(missing_ok=True)
    tools = [f"TOOLS={tmp_path / 'tools'}", f"PYTHON={sys.executable}"]
    subprocess.run(["make", *tools, "sbom"], cwd=ROOT, check=True)
    for image, file in zip(IMAGES, files, strict=True):
        found = json.loads((ROOT / file).read_text())["components"]
        of_image = [f"images/{image}/requirements.lock", "images/build.lock"]
        locked = {}
        for lock in of_image + (["images/steps.lock"] if image != "runner" else []):
            locked |= {name: version(entry) for name, (entry, _) in entries(lock).items()}
        assert {canonicalize_name(part["name"]): part["version"] for part in found} == locked
        assert all(reference["hashes"] for part in found for reference in part["externalReferences"])


@pytest.mark.parametrize("image", IMAGES)
def test_a_dockerfile_copies_the_locks_of_its_image(image):
    text = (ROOT / "images" / image / "Dockerfile").read_text()
    (copied,) = re.findall(r"^COPY (.+\.lock.*) /context/$", text, re.M)
    folder = "images/${FLAVOUR}" if image == "gpu" else f"images/{image}"
    assert f"{folder}/requirements.lock" in copied and "images/build.lock" in copied
    assert ("images/steps.lock" in copied) == (image != "runner")
    assert "constraints.txt" not in text and "packages.py" not in text


def test_pip_installs_nothing_without_a_hash():
    text = (ROOT / "images" / "install.sh").read_text().replace("\\\n", " ")
    for line in re.findall(r"pip install .*", text):
        assert "--no-deps" in line and "--no-build-isolation" in line
        assert "--require-hashes" in line or line.endswith(" .")


def test_pip_itself_is_in_no_image():
    """It is in no lock. What an image holds is compared with its locks where it is built (test_containers.py)."""
    text = (ROOT / "images" / "install.sh").read_text()
    made = re.findall(r"^ *python3 -m venv (.+)$", text, re.M)
    assert set(made) == {'"$tool"', "--without-pip /opt/venv"}
    assert "trap 'rm -rf \"$tool\"' EXIT" in text
    assert '"$tool/bin/python" -m pip --python /opt/venv/bin/python "$@"' in text


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_names_its_user_and_asks_for_no_gpus(image):
    """A user that is a number alone has no name in /etc/passwd: libraries then ask USER and LOGNAME."""
    text = (ROOT / "images" / image / "Dockerfile").read_text()
    assert re.search(r"^ +USER=multiview \\$", text, re.M) and re.search(
        r"^ +LOGNAME=multiview \\$", text, re.M
    )
    assert not re.search(r"^ *(ENV )?NVIDIA_VISIBLE_DEVICES", text, re.M)


def test_pip_keeps_what_it_fetched_between_builds():
    (cache,) = re.findall(r"PIP_CACHE_DIR=(\S+)", (ROOT / "images" / "install.sh").read_text())
    for file in Path(ROOT / "images").glob("*/Dockerfile"):
        runs = re.findall(r"^RUN (.+)", file.read_text().replace("\\\n", " "), re.M)
        assert runs and all(f"--mount=type=cache,target={cache} " in run for run in runs)
