"""What a GPU works on imports without the libraries of other rooms, as on a bare machine or in a small image."""

import subprocess
import sys
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks.carried import WHEELS
from multiview.plans import make_plan

ON_A_GPU = (
    *("torch", "transformers", "tokenizers", "sentence-transformers", "accelerate", "peft", "numpy", "scipy"),
    *("pyarrow", "safetensors", "fsspec", "regex", "PyYAML", "filelock", "matplotlib"),
)
"""All that the machine has besides typer, which the library's rooms shall not need."""
ROOMS = (
    "multiview.steps.table",
    "multiview.model.encoder",
    "multiview.encoding.encode",
    "multiview.training.train",
    "multiview.index.build",
    "multiview.index.view_index",
    "multiview.negatives.mining",
    "multiview.negatives.cross_encoder",
    "multiview.evaluation.evaluate",
    "multiview.evaluation.analyses.run",
)
PROGRAMS = (
    "benchmarks.gpu.__main__",
    "benchmarks.camvr_or_mvr",
    *{node.step.function_path.partition(":")[0] for node in make_plan("training", {}).nodes.values()},
)
BARE = """
import sys
from importlib import import_module
*elsewhere, modules = sys.argv[1:]
for name in elsewhere:
    sys.modules[name] = None  # no spec is found, and an import fails
for module in modules.split(","):
    import_module(module)
"""


def needed(*distributions: str) -> set[str]:
    """The names of these distributions, and of all that they require, as far as they are installed."""
    found: set[str] = set()
    left = [*distributions]
    while left:
        name = canonicalize_name(left.pop())
        try:
            requires = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        if name not in found:
            found.add(name)
            parsed = [Requirement(line) for line in requires]
            left += [
                each.name for each in parsed if each.marker is None or each.marker.evaluate({"extra": ""})
            ]
    return found


@pytest.mark.parametrize(
    ("modules", "libraries"),
    [(ROOMS, ("pydantic",)), (PROGRAMS, ("typer", *WHEELS))],
    ids=["rooms", "programs"],
)
def test_what_a_gpu_works_on_needs_few_libraries(modules, libraries):
    """All in one process: one cannot bring another what none may import."""
    known = needed(*ON_A_GPU, *libraries) | {"multiview-retrieval"}
    elsewhere = {
        name
        for name, distributions in metadata.packages_distributions().items()
        if known.isdisjoint(map(canonicalize_name, distributions)) and name.isidentifier()
    }
    assert {"mlflow", "faiss", "kfp", "urllib3"} <= elsewhere
    subprocess.run([sys.executable, "-c", BARE, *sorted(elsewhere), ",".join(modules)], check=True)
