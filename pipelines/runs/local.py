"""Runs a plan in this process, step after step, with progress on the screen and in MLflow; or prints, for `--dry-run`,
which steps are in the store and which would run."""

import contextlib
import gc
import os
import shlex
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from multiview import names, tracking
from multiview.artifacts.scratch import remove_scratch
from multiview.artifacts.store import LocalStore, Store
from multiview.errors import InputError, StepFailed, one_line
from multiview.plans.plan import Output, Outputs, Plan
from multiview.steps.execution import find_outputs, references_of, run_step
from multiview.steps.path import StepPath
from multiview.steps.runs import Run, StepState, write_run
from multiview.steps.work import StepReporter, Work
from multiview.tracking.shipping import ship_at_last
from pipelines.runs.progress import Progress


def run_here(plan: Plan, run: Run, store: Store, tracking_uri: str, debug: bool = False) -> list[StepState]:
    """Executes a plan; returns the states of its steps, all done or found. What steps print goes to the run's
    log, with `debug` to the screen. Raises StepFailed with the failed step's own line; with `debug`, its exception."""
    store.check_writable()
    write_run(store, run)
    log = _log_file(store, run)
    with Progress(store, run.id, run.steps, started=time.time()) as progress:
        with (
            # What fails to ship here is shipped below, where errors are reported.
            tracking.ship_live(store, run.id, tracking_uri),
            contextlib.nullcontext() if debug else _output_to(log),
            _interrupted_by_sigterm(),
        ):
            error: BaseException | None = None
            ended: dict[str, StepState] = {}
            try:
                ended = execute(plan, run, store)
            except KeyboardInterrupt as stopped:
                progress.console.print("stopped; the same command goes on from here", style="yellow")
                error = stopped
            except Exception as failure:
                traceback.print_exc()
                error = failure
        states = {state.path: state for state in progress.finish()}
    if isinstance(error, KeyboardInterrupt):  # nobody waits for an MLflow that is away
        ship_at_last(store, run.id, tracking_uri, ended="FAILED")
        raise error
    if unshipped := ship_or_say(store, run, tracking_uri, ended="FAILED" if error else None):
        progress.console.warn(unshipped)
    if error is None:
        return [ended[path] for path in run.steps]
    if debug:
        raise error
    for state in states.values():
        if state.failed:
            raise StepFailed(f"{state.path}: {state.error}", state.bad_input) from error
    raise StepFailed(f"{run.pipeline}: {one_line(error)}; its log is {log}", False) from error


@contextlib.contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """Makes SIGTERM, as CI and `timeout` send it, end the block as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def execute(plan: Plan, run: Run, store: Store) -> dict[str, StepState]:
    """Runs or finds each step of a plan, base models first, so that an unsuitable one ends the run at once; returns their
    states by path."""
    outputs: Outputs = {}
    ended: dict[str, StepState] = {}
    nodes = sorted(
        plan.nodes.values(), key=lambda node: bool(node.inputs) or names.PASSAGES in node.step.outputs
    )
    for node in nodes:
        for path in node.paths():
            reporter = StepReporter(store, run.id, str(path), node.step.name)
            with reporter.failures():
                run_step(node.step, reporter, node.config, plan.inputs_of(node, path, outputs))
            outputs[path] = reporter.state.outputs
            ended[str(path)] = reporter.state
            if reporter.state.status == "done":
                _free_memory()
    return ended


def _free_memory() -> None:
    """Frees what a step leaves behind: its models, and its copies of inputs."""
    gc.collect()
    gc.freeze()  # what stays, such as imported modules, would slow each later collection
    remove_scratch()
    torch = sys.modules.get("torch")
    if torch and torch.cuda.is_available():
        torch.cuda.empty_cache()


@contextlib.contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """Appends to `log` what Python code prints, and what libraries and child processes write to standard error."""
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(log.open("a", encoding="utf-8", buffering=1))
        stack.enter_context(contextlib.redirect_stdout(file))
        stack.enter_context(contextlib.redirect_stderr(file))
        before = os.dup(2)
        stack.callback(os.close, before)
        stack.callback(os.dup2, before, 2)
        os.dup2(file.fileno(), 2)
        yield


def _log_file(store: Store, run: Run) -> Path:
    if not isinstance(store, LocalStore):
        return Path(tempfile.mkdtemp(prefix="multiview-")) / f"{run.id}.log"
    folder = store.root / "runs" / run.id
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{run.id}.log"


def ship_or_say(store: Store, run: Run, uri: str, ended: str | None = None) -> str | None:
    """Ships to MLflow (`tracking.ship`); returns a line that says what to do if that fails. The run's results are safe."""
    try:
        tracking.ship(store, run.id, uri, ended=ended)
    except Exception as error:
        command = shlex.join(["multiview", "sync", "--store", store.url, "--tracking-uri", uri])
        return f"not all of this run is in MLflow. {one_line(error)}. Later: {command}"
    return None


def dry_run_lines(plan: Plan, store: Store) -> Iterator[str]:
    """Yields a line per step of a plan. Raises InputError for a store that cannot be read, and for missing sources."""
    store.folders(names.RUNS)
    plan.fingerprints(store)
    found = found_states(plan, store)
    for path in plan.paths():
        yield f"  {'found' if path in found else 'new':<5}  {path}"


def found_states(plan: Plan, store: Store) -> dict[StepPath, StepState]:
    """Returns states of the steps whose outputs the store has."""
    found: dict[StepPath, StepState] = {}
    outputs: Outputs = {}
    for node in plan.nodes.values():
        read = [source.path for _, source in node.sources() if isinstance(source, Output)]
        if not all(each in found for source in read for each in plan.nodes[source].paths()):
            continue
        for path in node.paths():
            try:
                work = Work.resolve(node.step, node.config, plan.inputs_of(node, path, outputs), store)
                records = find_outputs(work, store)
                made = references_of(node.step, store, records) if records else {}
            except InputError:
                continue
            if not made:
                continue
            reporter = StepReporter(store, "", str(path), node.step.name)
            reporter.describe(work)
            about = {"status": "found", "attempt": records[node.step.outputs[0]].data, "ended": time.time()}
            found[path] = reporter.state.model_copy(update={**about, "outputs": made})
            outputs[path] = made
    return found
