"""`make setup` with a pip that only notes what it is asked for."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.fixtures.project import ROOT

TORCH = next(
    line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("torch==")
)

PYTHON = """#!/bin/sh
mkdir -p .venv/bin && cp pip .venv/bin/pip && printf '#!/bin/sh\\n' > .venv/bin/python && chmod +x .venv/bin/*
"""
PIP = """#!/bin/sh
echo "$@" >> asked
case "$*" in
*+cpu*) exit {own} ;;
*--index-url*) exit {pytorch} ;;
esac
"""


@pytest.mark.parametrize(
    ("own", "pytorch", "kinds"),
    [
        (0, 1, [f"{TORCH}+cpu"]),
        (1, 0, [f"{TORCH}+cpu", f"{TORCH} --index-url https://download.pytorch.org/whl/cpu"]),
        (1, 1, [f"{TORCH}+cpu", f"{TORCH} --index-url https://download.pytorch.org/whl/cpu", TORCH]),
    ],
    ids=["an index with CPU builds", "PyTorch's own index", "neither"],
)
def test_torch_is_the_cpu_build_where_an_index_has_it(
    tmp_path: Path, own: int, pytorch: int, kinds: list[str]
) -> None:
    for name in ("Makefile", "constraints.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    for name, content in (("python", PYTHON), ("pip", PIP.format(own=own, pytorch=pytorch))):
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o755)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "mkdir", "cp", "chmod", "grep", "touch", "cat", "printf", "echo"):  # and no nvidia-smi
        if found := shutil.which(name):
            (tools / name).symlink_to(found)
    made = subprocess.run(
        [shutil.which("make") or "make", ".venv/ready", "PYTHON=./python"],
        cwd=tmp_path,
        env={**os.environ, "PATH": str(tools)},
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    asked = [
        line.removeprefix("install -qq --no-compile ")
        for line in (tmp_path / "asked").read_text().splitlines()
    ]
    assert [line for line in asked if line.startswith("torch")] == kinds
    assert ("PyTorch's own index cannot be reached" in made.stderr) == (len(kinds) == 3)
