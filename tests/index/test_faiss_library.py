"""The one place that loads faiss: with kernels that suit the processor, and results that hang on none of them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from multiview import environment as variables
from multiview.index.faiss_library import KERNELS

ROOT = Path(__file__).parents[2]
KERNEL = KERNELS.get(torch.backends.cpu.get_cpu_capability())
on_x86 = pytest.mark.skipif(KERNEL is None, reason="kernels are chosen on x86-64")


def loaded(chosen: str | None, imports: str) -> tuple[dict[str, str], str | None]:
    """After `imports` in a fresh process: the kernels of each library that has OpenBLAS, by its folder, and what the
    environment says of them; `chosen` is what it said before."""
    program = f"""
import json, os
from pathlib import Path
{imports}
from threadpoolctl import threadpool_info
found = {{Path(library["filepath"]).parent.name: library.get("architecture") for library in threadpool_info()
         if library["internal_api"] == "openblas"}}
print(json.dumps([found, os.environ.get("{variables.OPENBLAS_CORETYPE}")]))
"""
    environment = {name: value for name, value in os.environ.items() if name != variables.OPENBLAS_CORETYPE}
    environment |= {variables.OPENBLAS_CORETYPE: chosen} if chosen else {}
    printed = subprocess.check_output([sys.executable, "-c", program], text=True, env=environment)
    return tuple(json.loads(printed))


def of_faiss(kernels: dict[str, str]) -> str:
    return next(kernel for folder, kernel in kernels.items() if folder.startswith("faiss"))


@on_x86
def test_faiss_gets_the_kernels_of_its_processor_and_nothing_else_does():
    alone, _ = loaded(None, "import numpy, scipy.linalg")
    kernels, variable = loaded(None, "from multiview.index import faiss_library; import scipy.linalg")
    assert of_faiss(kernels) == KERNEL
    assert {folder: kernels[folder] for folder in alone} == alone and len(kernels) == len(alone) + 1
    assert variable is None


@on_x86
def test_kernels_that_somebody_chose_are_kept():
    kernels, variable = loaded("Prescott", "from multiview.index import faiss_library")
    assert of_faiss(kernels) == variable == "Prescott"


def test_faiss_is_loaded_in_one_place():
    """Anything else that loads it first would load it with whatever kernels OpenBLAS falls back to."""
    folders = [ROOT / name for name in ("src", "pipelines", "components", "tests", "benchmarks")]
    sources = [file for folder in folders for file in folder.rglob("*.py")]
    found = {file.name for file in sources if re.search(r"^\s*(import|from) faiss\b", file.read_text(), re.M)}
    assert found == {"faiss_library.py"}


@on_x86
@pytest.mark.parametrize("kernel", [each for each in ("Prescott", "Haswell") if each != KERNEL])
def test_indexes_are_equal_whatever_the_kernel(kernel):
    """The tests that compare indexes byte for byte: of other shards, and edited against filled in order. Prescott's rounds
    a row differently among another number of rows, Haswell's also at another offset; the machine's own they run with
    anyway."""
    tests = ["tests/index/approximate/test_kinds.py", "tests/index/approximate/test_editing.py"]
    chosen = ["-p", "no:cacheprovider", *tests, "-k", "two_shards or in_order"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *chosen],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {variables.OPENBLAS_CORETYPE: kernel},
    )
    assert done.returncode == 0, done.stdout + done.stderr
