"""Execution of a plan on this machine by KFP's local runner, while this process shows progress and ships to MLflow.

The driver holds a lock while it lives, so that a step whose driver was killed ends by itself.
"""

from __future__ import annotations

import builtins
import contextlib
import os
import shlex
import signal
import tempfile
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from multiview import environment, tracking
from multiview.artifacts.store import LocalStore, Store
from multiview.errors import InputError, StepFailed, one_line
from multiview.plans.found import find_steps
from multiview.plans.plan import Plan
from multiview.steps.backends import fork_server
from multiview.steps.runs import Run, RunReference, StepState, write_run
from multiview.terminal import Console
from multiview.tracking.tags import user
from pipelines.runs.progress import Progress

if TYPE_CHECKING:
    from types import FrameType

    from kfp.local import SubprocessRunner


def run_here(plan: Plan, run: Run, store: Store, tracking_uri: str, debug: bool = False) -> list[StepState]:
    """Executes a plan through `kfp.local`; returns the states of its steps, all done or found.

    Raises StepFailed with a failing step's own line.
    """
    store.check_writable()
    write_run(store, run)
    log = _log_file(store, run)
    with (
        _driver_lock(),
        _shard_threads(plan),
        _code_of(run),
        Progress(store, run.id, run.steps, started=time.time()) as progress,
        _interruptible(progress.console),
    ):
        # Found steps are left out: each would start a process to find itself. Without others not even KFP is started.
        rest, error = find_steps(plan, store, run.id), None
        if rest.nodes:
            # What cannot be shipped now is shipped below, where errors are reported.
            with tracking.ship_live(store, run.id, tracking_uri, soon=True):
                error = _execute(rest, RunReference(store=store.url, run=run.id), log, debug)
        states = {state.path: state for state in progress.finish()}
    if unshipped := ship_or_say(store, run, tracking_uri):
        progress.console.print(unshipped, style="yellow", markup=False)
    if error is None:
        return [states[path] for path in run.steps]
    if debug:
        raise error
    raise _failure(run, states.values(), error, log) from error


@contextlib.contextmanager
def _interruptible(console: Console) -> Iterator[None]:
    """Says at once, on Ctrl-C, that the run is not lost: ending its steps takes seconds."""

    def stop(number: int, frame: FrameType | None) -> None:
        console.print("stopping; the same command goes on from here", style="yellow")
        signal.default_int_handler(number, frame)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def _failure(run: Run, states: Iterable[StepState], error: Exception, log: Path) -> StepFailed:
    """Returns the failed step with its own line; where no step reports a failure, the running step, or KFP's error."""
    for state in states:
        if state.status == "failed":
            return StepFailed(f"{state.path}: {state.error}", state.bad_input)
    for state in states:
        if state.status == "running":
            words = "ended without a word (killed, or out of memory?)"
            return StepFailed(f"{state.path} {words}; its log is {log}", False)
    return StepFailed(f"{run.pipeline}: {one_line(error)}; its log is {log}", False)


def step_runner(root: str) -> SubprocessRunner:
    """Returns the runner for the steps of KFP's local mode: a process of this machine, with outputs in `root`.

    The tests of images put a container in its place.
    """
    from kfp import local

    return local.SubprocessRunner(use_venv=False)


def _execute(plan: Plan, context: RunReference, log: Path, debug: bool) -> Exception | None:
    from kfp import local

    from pipelines.kubeflow.compile import pipeline

    with contextlib.ExitStack() as stack:
        stack.enter_context(fork_server.offer(log, [node.step for node in plan.nodes.values()]))
        root = stack.enter_context(tempfile.TemporaryDirectory(prefix="multiview-kfp-"))
        # The commands of KFP's steps write a program each into a temporary folder, and leave it there.
        stack.enter_context(_set(environment.TMPDIR, root))
        if not debug:
            file = stack.enter_context(log.open("a", encoding="utf-8", buffering=1))
            stack.enter_context(contextlib.redirect_stdout(file))
            stack.enter_context(contextlib.redirect_stderr(file))
        # KFP replaces `print` while a task runs, and when two run at once the later may not put the first one back.
        stack.callback(setattr, builtins, "print", builtins.print)
        local.init(
            runner=step_runner(root),
            pipeline_root=root,
            workspace_root=f"{root}/workspace",
        )
        try:
            pipeline(plan)(run=context.model_dump_json())
        except Exception as error:
            traceback.print_exc()
            return error
    return None


def _log_file(store: Store, run: Run) -> Path:
    folder = (
        store.root / "runs" / run.id
        if isinstance(store, LocalStore)
        else Path(tempfile.gettempdir()) / f"multiview-{user()}"
    )
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{run.id}.log"


@contextlib.contextmanager
def _driver_lock() -> Iterator[None]:
    path = Path(tempfile.gettempdir()) / f"multiview-driver-{os.getpid()}-{time.time_ns()}.lock"
    with FileLock(path):
        os.environ[environment.DRIVER_LOCK] = str(path)
        try:
            yield
        finally:
            del os.environ[environment.DRIVER_LOCK]
            path.unlink(missing_ok=True)


def ship_or_say(store: Store, run: Run, uri: str) -> str | None:
    """Ships to MLflow; if that fails, returns a line that says what to do. The run's results are safe."""
    try:
        tracking.ship(store, run.id, uri)
    except Exception as error:
        reason = str(error) if isinstance(error, InputError) else one_line(error)
        command = shlex.join(["multiview", "sync", "--store", store.url, "--tracking-uri", uri])
        return f"not all of this run is in MLflow. {reason}. Later: {command}"
    return None


@contextlib.contextmanager
def _shard_threads(plan: Plan) -> Iterator[None]:
    """Halves the threads of each shard, because KFP's local runner works on two shards at once.

    This is a third faster on two cores; the embeddings are the same to the bit.
    """
    if any(len(node.shards) > 1 for node in plan.nodes.values()):
        os.environ[environment.SHARD_THREADS] = str(max(1, (os.cpu_count() or 1) // 2))
    try:
        yield
    finally:
        os.environ.pop(environment.SHARD_THREADS, None)


@contextlib.contextmanager
def _code_of(run: Run) -> Iterator[None]:
    """Passes the commit of this checkout to the steps, which record it as the code that ran them."""
    with _set(environment.GIT_SHA, run.git_sha or os.environ.get(environment.GIT_SHA)):
        yield


@contextlib.contextmanager
def _set(variable: str, value: str | None) -> Iterator[None]:
    """Sets an environment variable within the block, where there is a value."""
    before = os.environ.get(variable)
    if value:
        os.environ[variable] = value
    try:
        yield
    finally:
        os.environ.pop(variable, None)
        if before is not None:
            os.environ[variable] = before
