"""What images install, from pyproject.toml.

`python images/packages.py list cpu|gpu|runner` prints it; `python images/packages.py wheels` puts all of it
into images/wheels, for builds that reach no package index.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ONLY_STEPS = {
    *("accelerate", "bm25s", "ir-measures", "nltk", "pytrec-eval-terrier", "pystemmer", "rouge-score"),
    *("safetensors", "scipy", "sentencepiece", "torch", "transformers"),
}
"""What only steps import: the runner, which starts runs and runs no step, does without."""


def name(requirement: str) -> str:
    """A requirement's package, as package indexes spell it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement, maxsplit=1)[0]).lower()


def requirements(project: dict, image: str) -> list[str]:
    """What an image needs: the project's dependencies with the extra `cpu` or `gpu`, or the runner's part."""
    needed, extras = project["dependencies"], project["optional-dependencies"]
    if image != "runner":
        return [*needed, *extras[image]]
    # The runner only asks an MLflow server, for which a tenth of MLflow is enough.
    return [
        re.sub(r"^mlflow\b", "mlflow-skinny", requirement)
        for requirement in [*needed, *extras["pipelines"]]
        if name(requirement) not in ONLY_STEPS
    ]


def fill_wheels(settings: dict, folder: Path) -> None:
    """Put what the CPU image and the runner install into `folder`, with this Python's pip and its settings."""
    sys.path.insert(0, str(ROOT / "src"))
    from multiview.data.punkt import WHEEL

    project = settings["project"]
    wanted = [*requirements(project, "cpu"), *requirements(project, "runner")]
    pip = [sys.executable, "-m", "pip"]
    subprocess.run(
        [*pip, "wheel", "--quiet", f"--wheel-dir={folder}", f"--constraint={ROOT}/constraints.txt"]
        + [*wanted, *settings["build-system"]["requires"]],
        check=True,
    )
    subprocess.run([*pip, "download", "--quiet", "--no-deps", f"--dest={folder}", WHEEL], check=True)


def main() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    match sys.argv[1:]:
        case ["list", ("cpu" | "gpu" | "runner") as image]:
            print("\n".join(requirements(settings["project"], image)))
        case ["wheels"]:
            fill_wheels(settings, ROOT / "images" / "wheels")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
