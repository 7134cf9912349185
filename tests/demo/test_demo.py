"""`make demo` in a fresh clone, as a newcomer types it: with three training steps here, whole in `make acceptance`."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = ["system", "base", "mvr", "camvr", "bm25", "camvr-bm25"]


def clone(target: Path) -> Path:
    """What is committed, and nothing else."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(target)], check=True)
    return target


def make_demo(folder: Path, *words: str, **environment: str) -> str:
    done = subprocess.run(
        ["make", "--no-print-directory", "demo", *words],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def check_ending(output: str) -> None:
    """The table, one question with its snippet, and three things to do next."""
    assert [line.split("|")[1].strip() for line in output.splitlines() if line.startswith("| ")] == ROWS
    for label in ("Look at it:", "Ask it:", "Your data:"):
        assert len(re.findall(f"^{label}", output, re.MULTILINE)) == 1, output


def test_the_demo_runs_in_a_fresh_clone_and_is_found_again(tmp_path):
    """With this environment instead of a new one, whose library would be this checkout's: the clone's
    comes first in the path."""
    folder = clone(tmp_path / "clone")
    words = (
        f"VENV={sys.prefix}",
        f"--assume-old={sys.prefix}/ready",
        "DEMO=--set train.max_steps=3 --set comparison.systems.mvr.train.rounds=1",
    )
    output = make_demo(folder, *words, PYTHONPATH=str(folder / "src"))
    assert re.search(r"^comparison-\w+: \d+ steps done, 0 found", output, re.MULTILINE)
    check_ending(output)

    # The command that the demo says, in the folder where it says it.
    (line,) = re.findall(r"^Ask it: +(.+)$", output, re.MULTILINE)
    found = subprocess.run(
        line,
        shell=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder / "src")},
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr
    assert re.search(r"^1   .+view \d", found.stdout, re.MULTILINE)


@pytest.mark.acceptance
def test_the_whole_demo_from_nothing_and_found_again(tmp_path):
    """It should take less than ten minutes on two idle cores, and less than one when all is found."""
    folder = clone(tmp_path / "clone")
    started = time.monotonic()
    check_ending(make_demo(folder))
    first = time.monotonic() - started
    again = make_demo(folder)
    second = time.monotonic() - started - first
    check_ending(again)
    assert ": 0 steps done," in again
    print(f"make demo: from nothing {first:.0f} s, again {second:.0f} s")
