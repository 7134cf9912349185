"""Work in forks has the results and the errors of work in this process."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from multiview import environment, names
from multiview.artifacts.record import read_record
from multiview.artifacts.scratch import remove_scratch
from multiview.artifacts.store import LocalStore
from multiview.config import Config
from multiview.errors import InputError, ProcessFailed
from multiview.steps.backends import fork_server
from multiview.steps.execution import run_step
from multiview.steps.reporter import StepReporter
from multiview.steps.table import STEPS
from tests.steps.backends.forked import DO, STEP

ROOT = Path(__file__).parents[3]

ASKER = """
from multiview.artifacts.record import read_record
from multiview.artifacts.store import LocalStore
from multiview.config import Config
from multiview.steps.execution import run_step
from multiview.steps.reporter import StepReporter
from multiview.steps.table import STEPS
from tests.steps.backends.forked import STEP
from pathlib import Path
STEPS[STEP.name] = STEP
store = LocalStore(Path("store"))
run_step(STEP, StepReporter(store, "run", "forked", "forked"), STEP.configure(Config()), {})
"""


def start(folder: str) -> subprocess.Popen:
    with fork_server.listen(folder) as listener:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.steps.backends.forked", str(listener.fileno())],
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            cwd=ROOT,
        )


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[tuple[str, subprocess.Popen]]:
    folder = str(tmp_path_factory.mktemp("forks"))
    process = start(folder)
    yield f"{folder}/{fork_server.SOCKET}", process
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(timeout=60) == 0, "it ends with its driver"


@pytest.fixture
def reporter(server, tmp_path, monkeypatch) -> StepReporter:
    monkeypatch.setitem(STEPS, STEP.name, STEP)
    monkeypatch.setenv(environment.FORK_SERVER, server[0])
    monkeypatch.chdir(tmp_path)
    return StepReporter(LocalStore(tmp_path / "store"), "run", "forked", STEP.name)


def run(reporter: StepReporter) -> None:
    with reporter.failures():
        run_step(STEP, reporter, STEP.configure(Config()), {})


def test_a_fork_works_where_it_is_asked_and_says_it_there(server, reporter, tmp_path, capfd):
    run(reporter)
    assert reporter.state.status == "done"
    folder = reporter.store.root / reporter.state.attempt
    assert folder.is_dir(), "the state names the attempt that the fork made"
    who, _, working_folder = (folder / "who.txt").read_text().partition(" in ")
    fork, _, parent = who.partition(" of ")
    assert (int(parent), working_folder) == (server[1].pid, str(tmp_path))
    assert int(fork) not in (os.getpid(), server[1].pid)
    assert capfd.readouterr().out == "said\n"
    run(reporter)
    assert reporter.state.status == "found"


def test_its_errors_are_those_of_the_step(reporter, monkeypatch, capfd):
    monkeypatch.setenv(DO, "refuse")
    with pytest.raises(InputError, match=r"^questions.jsonl: row 3 has no answer$"):
        run(reporter)
    assert (reporter.state.status, reporter.state.bad_input) == ("failed", True)
    assert reporter.state.attempt, "it is known which attempt failed"

    monkeypatch.setenv(DO, "break")
    with pytest.raises(ProcessFailed):
        run(reporter)
    assert not reporter.state.bad_input
    assert reporter.state.error is not None
    assert reporter.state.error.startswith("ZeroDivisionError: by none (forked.py:")
    assert "Traceback" in capfd.readouterr().err


@pytest.mark.parametrize("what", ["", "refuse", "break"])
def test_it_leaves_no_scratch_folder(reporter, monkeypatch, tmp_path, what):
    remove_scratch()
    monkeypatch.setenv(environment.SCRATCH, str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv(DO, what)
    with suppress(InputError, ProcessFailed):
        run(reporter)
    assert reporter.state.status == ("failed" if what else "done")
    remove_scratch()
    assert not list((tmp_path / "scratch").iterdir())


def test_a_killed_fork_is_a_failed_step(reporter, monkeypatch):
    monkeypatch.setenv(DO, "be killed")
    with pytest.raises(ProcessFailed, match="ended without a word"):
        run(reporter)
    assert read_record(reporter.store, names.PASSAGES, reporter.state.key) is None
    monkeypatch.delenv(DO)
    run(reporter)
    assert reporter.state.status == "done", "those that come after it have theirs"


def test_where_nobody_forks_any_more_a_step_fails_and_does_not_wait(reporter, tmp_path, monkeypatch):
    gone = start(str(tmp_path))
    gone.kill()
    gone.communicate()
    monkeypatch.setenv(environment.FORK_SERVER, str(tmp_path / fork_server.SOCKET))
    with pytest.raises(ProcessFailed, match="ended without a word"):
        run(reporter)


def test_a_fork_ends_with_the_process_that_asked(server, reporter, tmp_path):
    environment = {**os.environ, DO: "wait", "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    asker = subprocess.Popen([sys.executable, "-c", ASKER], cwd=tmp_path, env=environment)
    fork = int(_wait(lambda: (tmp_path / "waiting").exists() and (tmp_path / "waiting").read_text()))
    assert psutil.Process(fork).ppid() == server[1].pid
    asker.send_signal(signal.SIGKILL)
    asker.wait()
    _wait(lambda: not psutil.pid_exists(fork))


def _wait(condition: Callable, seconds: float = 60):
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)
    return value


def test_what_the_steps_of_a_plan_do_not_need_is_not_imported_before_them():
    """Generators and whole models take seconds, of which an evaluation alone needs nothing."""
    code = "import sys, importlib as i; [i.import_module(m) for m in sys.argv[1:]]; print(*sys.modules)"
    alone = fork_server.preloaded([STEPS["split"], STEPS["evaluate"]])
    loaded = subprocess.run([sys.executable, "-c", code, *alone], capture_output=True, text=True, check=True)
    assert "torch" in loaded.stdout.split()
    slow = {*fork_server.WHOLE_MODELS, STEPS["train"].run.partition(":")[0], "transformers.generation.utils"}
    assert not slow & set(loaded.stdout.split())
    together = fork_server.preloaded([STEPS["evaluate"], STEPS["train"]])
    assert {*alone, *fork_server.WHOLE_MODELS, "multiview.training.train"} == set(together)
