"""Training on several processes, on one node or on several, with torchrun's launcher.

The process of the step starts the training processes, waits for them, and handles the events and checkpoints of the first
one. On several nodes, each has such a process, which knows the others from torchrun's environment (`PET_NNODES`, …).
"""

import contextlib
import json
import multiprocessing
import os
import signal
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from torch import distributed
from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from torch.distributed.run import config_from_args, parse_args

from multiview import environment
from multiview.artifacts.scratch import remove_scratch
from multiview.config import Train
from multiview.errors import InputError, ProcessFailed, counted, one_line
from multiview.steps.checkpoints import Checkpoints
from multiview.steps.context import StepContext
from multiview.steps.events import Events
from multiview.steps.processors import processors

Body = Callable[[StepContext], None]
"""The function that a training step runs in each of its processes, or a partial of one; defined at the top of a module."""


def on_processes(body: Body, context: StepContext) -> None:
    """Runs a training step's `body` on `train.processes` processes; a single one is this process.

    Raises InputError for more processes than GPUs, and for bad input that a process finds; ProcessFailed with the
    error line of the process that failed first. A signal that ends this process ends the training processes first.
    """
    processes = processes_here(context.settings.train)
    nodes = int(os.environ.get(environment.PET_NNODES, "1"))
    if processes * nodes == 1:
        return body(context)
    context.events.fact(processes=processes * nodes)
    receivers = {"events": context.events, "checkpoints": context.checkpoints}
    with tempfile.TemporaryDirectory(prefix="reports-") as folder, answering(receivers) as (line, raised):
        threads = max(1, processors() // processes)
        checkpoints = RemoteCheckpoints(line, context.checkpoints.latest())
        sent = replace(context, events=RemoteEvents(line), checkpoints=checkpoints)
        try:
            _launch(_launcher(processes, nodes), body, sent, Path(folder), threads)
        except ChildFailedError as error:
            if raised:
                raise raised[0] from None
            raise _failure(error, Path(folder)) from None


def processes_here(settings: Train) -> int:
    """Number of processes per node: as set, else one per GPU. Raises InputError for more processes than GPUs."""
    gpus = torch.cuda.device_count()
    if settings.processes is None:
        return max(gpus, 1)
    if gpus and settings.processes > gpus:
        raise InputError(
            f"train.processes: {settings.processes}, but torch sees {counted(gpus, 'GPU')} here; each process needs one"
        )
    return settings.processes


def _launcher(processes: int, nodes: int) -> LaunchConfig:
    """torchrun's settings, under which a process that fails ends all others."""
    if nodes > 1:
        # torchrun's settings from its environment variables; `-` stands for the script, which it does not run here.
        config, _, _ = config_from_args(parse_args(["--nproc-per-node", str(processes), "-"]))
    else:
        config = LaunchConfig(
            1,
            1,
            processes,
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            local_addr="localhost",
            run_id=f"multiview-{os.getpid()}",
        )
    config.max_restarts = 0
    config.signals_to_handle = "SIGTERM"  # an interrupt is left to Python
    return config


def _launch(config: LaunchConfig, *job: object) -> None:
    """Runs `_work(*job)` in the processes and waits for them. A SIGTERM ends them, and then this process as usual."""
    previous = signal.getsignal(signal.SIGTERM)
    try:
        elastic_launch(config, _work)(*job)
    except SignalException as ended:
        signal.signal(ended.sigval, previous)
        signal.raise_signal(ended.sigval)
        raise
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, previous)


def _work(body: Body, context: StepContext, reports: Path, threads: int) -> None:
    """The work of one process of a training: `body`, with the events and checkpoints of the starting process.

    The first process reports events. One that fails writes its error line into the folder `reports`.
    """
    threading.Thread(target=_end_with_starter, daemon=True, name="starter-watch").start()
    rank = int(os.environ[environment.RANK])
    # For data loaders, and for accelerate, which chooses a number where none is set.
    os.environ[environment.OMP_NUM_THREADS] = str(threads)
    torch.set_num_threads(threads)
    context = context if rank == 0 else replace(context, events=Events())
    try:
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ[environment.LOCAL_RANK]))
        body(context)
        if distributed.is_initialized():
            distributed.destroy_process_group()
    except BaseException as error:
        traceback.print_exc()
        bad_input, line = isinstance(error, InputError), one_line(error)
        report = {"bad_input": bad_input, "line": line if bad_input else f"training process {rank}: {line}"}
        (reports / f"{rank}.json").write_text(json.dumps(report), encoding="utf-8")
        raise SystemExit(1) from None


def _end_with_starter() -> None:
    starter = multiprocessing.parent_process()
    if starter is not None:
        starter.join()
        remove_scratch()
        os._exit(70)


def _failure(error: ChildFailedError, reports: Path) -> Exception:
    """The error that made the others fail: bad input, else a process ended by a signal, else the first failure."""
    files = sorted(reports.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
    failures = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    for report in failures:
        if report["bad_input"]:
            return InputError(report["line"])
    rank, first = error.get_first_failure()
    killed = [(r, f) for r, f in error.failures.items() if f.exitcode < 0]
    if killed:
        rank, first = min(killed, key=lambda item: item[1].timestamp)
        return ProcessFailed(f"training process {rank} was ended by {first.signal_name()}")
    if failures:
        return ProcessFailed(failures[0]["line"])
    return ProcessFailed(f"training process {rank} ended with status {first.exitcode}")


# --- calls from a training process to the process that started it, which alone talks to the store ---------


@dataclass(frozen=True)
class RemoteEvents(Events):
    """The events of the starting process, reported by the first process of a training; each call waits for its answer.

    An error that a call raises in the starting process ends the training; the training process gets a RuntimeError.
    """

    line: Connection

    def metric(self, name: str, value: float, step: int | None = None) -> None:
        _call(self.line, "events", "metric", name, value, step)

    def warning(self, text: str) -> None:
        _call(self.line, "events", "warning", text)

    def fact(self, **facts: object) -> None:
        _call(self.line, "events", "fact", **facts)

    def progress(self, done: int, total: int, unit: str) -> None:
        _call(self.line, "events", "progress", done, total, unit)


@dataclass(frozen=True)
class RemoteCheckpoints(Checkpoints):
    """The checkpoints of the starting process, whose latest is `found`; calls as in `RemoteEvents` publish more."""

    line: Connection
    found: Path | None

    def latest(self) -> Path | None:
        return self.found

    def publish(self, step: int, folder: Path) -> None:
        _call(self.line, "checkpoints", "publish", step, folder)


@contextlib.contextmanager
def answering(receivers: Mapping[str, object]) -> Iterator[tuple[Connection, list[BaseException]]]:
    """A connection over which one process may call methods of `receivers`, and the errors that they raised so far."""
    starter_end, caller_end = Pipe()
    raised: list[BaseException] = []
    thread = threading.Thread(
        target=_answer, args=(starter_end, receivers, raised), daemon=True, name="answering"
    )
    thread.start()
    try:
        yield caller_end, raised
    finally:
        # No other process holds the caller's end any more, so closing it here ends the thread.
        caller_end.close()
        thread.join()
        starter_end.close()


def _call(line: Connection, receiver: str, name: str, /, *arguments: object, **named: object) -> None:
    """Makes a call and waits until it is done."""
    line.send((receiver, name, arguments, named))
    if (problem := line.recv()) is not None:
        raise RuntimeError(problem)


def _answer(line: Connection, receivers: Mapping[str, object], raised: list[BaseException]) -> None:
    while True:
        try:
            receiver, name, arguments, named = line.recv()
        except (EOFError, OSError):
            return
        problem = None
        try:
            getattr(receivers[receiver], name)(*arguments, **named)
        except BaseException as error:
            raised.append(error)
            problem = one_line(error)
        with contextlib.suppress(OSError):  # the caller may be gone
            line.send(problem)
