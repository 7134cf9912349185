"""Readers under coverage-guided fuzzing: what reaches new lines of them is tried further."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys

import pytest

from tests.bad_input.readers import SEEDS
from tests.fixtures.project import ROOT
from tests.fixtures.tally import FUZZED

RUNS = 1500
"""Executions per reader."""


@pytest.mark.torture
@pytest.mark.skipif(not importlib.util.find_spec("atheris"), reason="make torture installs atheris")
@pytest.mark.parametrize("name", SEEDS)
def test_no_path_through_a_reader_ends_elsewhere(name, tmp_path, tally):
    command = [sys.executable, "-m", "tests.bad_input.coverage_guided", name, f"-runs={RUNS}", "-seed=1"]
    command += [f"-artifact_prefix={tmp_path}/", "-print_final_stats=0"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    found = re.search(r"Done (\d+) runs", done.stderr)
    assert found, done.stderr[-3000:]
    tally.add(FUZZED, int(found[1]), "readers, guided by coverage")
