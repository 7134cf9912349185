"""What a record says of the machine: all that can change the last bits of a float."""

import json
import os
import subprocess
import sys

import pytest

from multiview import environment
from multiview.steps.provenance import machine

PROGRAM = """
import json, sys
from multiview.steps.provenance import machine
alone = machine()
import numpy
print(json.dumps([alone, machine(), "torch" in sys.modules]))
"""


def machines(**variables: str) -> tuple[dict[str, object], dict[str, object], bool]:
    """The machine as a process with these variables describes it, before and after it has imported NumPy."""
    unset = {name: value for name, value in os.environ.items() if name not in environment.KERNEL_VARIABLES}
    printed = subprocess.check_output([sys.executable, "-c", PROGRAM], text=True, env=unset | variables)
    return tuple(json.loads(printed))


def test_what_is_not_loaded_is_neither_loaded_nor_named() -> None:
    alone, later, torch = machines()
    assert set(alone) >= {"multiview", "python", "processor"} and alone["processor"]
    assert set(later) - set(alone) == {"numpy"} and not torch
    assert "kernels" not in alone


def test_instructions_that_somebody_chose_are_named() -> None:
    chosen = dict.fromkeys(environment.KERNEL_VARIABLES, "any")
    chosen |= {"OPENBLAS_CORETYPE": "Prescott", "NPY_DISABLE_CPU_FEATURES": "AVX2"}
    alone, *_ = machines(**chosen)
    assert alone["kernels"] == chosen


def test_the_device_is_the_one_that_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda: "NVIDIA Card")
    assert [machine(name)["device"] for name in ("auto", "cuda:1", "cpu")] == ["NVIDIA Card"] * 2 + ["cpu"]
