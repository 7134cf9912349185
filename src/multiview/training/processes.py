"""Training on several processes, of one node or of several, by torchrun's own launcher.

The process of the step starts them and waits: it stages inputs before and publishes outputs after, and answers
the first process's events and checkpoints. On several nodes each node has such a process, told of the others
by torchrun's environment (`PET_NNODES`, `PET_NODE_RANK`, `PET_MASTER_ADDR`, `PET_MASTER_PORT`).
"""

import json
import multiprocessing
import os
import signal
import tempfile
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from torch import distributed
from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from torch.distributed.run import config_from_args, parse_args

from multiview import environment
from multiview.config import Train
from multiview.errors import InputError, ProcessFailed, one_line
from multiview.steps.context import StepContext
from multiview.steps.events import NoEvents
from multiview.training.remote import RemoteCheckpoints, RemoteEvents, answering, declared_calls

Body = Callable[[StepContext], None]
"""What a training step does in each of its processes; a function of a module."""


@dataclass(frozen=True)
class Job:
    """What a process of the training is told."""

    body: Body
    context: StepContext
    """Without events and checkpoints, which the starting process answers for."""
    line: Connection
    latest: Path | None
    keeps: bool
    """Whether checkpoints are kept."""
    reports: Path
    """A folder for the line of a process that fails."""
    threads: int


def on_processes(body: Body, context: StepContext) -> None:
    """Run a training step's `body` on as many processes as `settings.train.processes` says; one is this one.

    InputError for more processes than GPUs, and for what a process finds to be bad input; ProcessFailed with
    the line of the process that failed first. Ends with the signal that ends this process.
    """
    processes = processes_here(context.settings.train)
    nodes = int(os.environ.get(environment.PET_NNODES, "1"))
    if processes * nodes == 1:
        return body(context)
    context.events.fact("processes", processes * nodes)
    checkpoints = context.checkpoints
    latest = checkpoints.latest() if checkpoints is not None else None
    calls = declared_calls(context.events, checkpoints)
    with tempfile.TemporaryDirectory(prefix="reports-") as folder, answering(calls) as (line, raised):
        threads = max(1, torch.get_num_threads() // processes)
        sent = replace(context, events=NoEvents(), checkpoints=None)
        job = Job(body, sent, line, latest, checkpoints is not None, Path(folder), threads)
        try:
            _launch(_launcher(processes, nodes), job)
        except ChildFailedError as error:
            if raised:
                raise raised[0] from None
            raise _failure(error, job.reports) from None


def processes_here(settings: Train) -> int:
    """The processes of each node: as set, else one for each GPU. InputError for more than there are GPUs."""
    gpus = torch.cuda.device_count()
    if settings.processes is None:
        return max(gpus, 1)
    if gpus and settings.processes > gpus:
        raise InputError(
            f"train.processes: {settings.processes}, but torch sees {gpus} GPUs here; each process needs one"
        )
    return settings.processes


def _launcher(processes: int, nodes: int) -> LaunchConfig:
    """torchrun's settings. A process that fails ends all: the step goes on from its checkpoint when it is tried again."""
    if nodes > 1:
        # The words that torchrun itself takes from its environment; the script is ours already.
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
    # An interrupt stays Python's own.
    config.signals_to_handle = "SIGTERM"
    return config


def _launch(config: LaunchConfig, job: Job) -> None:
    """Start the processes and wait for them. A SIGTERM ends them first, then this process as it would have."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        elastic_launch(config, _work)(job)
    except SignalException as ended:
        signal.signal(ended.sigval, before)
        signal.raise_signal(ended.sigval)
        raise
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _work(job: Job) -> None:
    """One process of a training."""
    threading.Thread(target=_end_with_starter, daemon=True, name="starter-watch").start()
    rank = int(os.environ["RANK"])
    # For accelerate, which chooses a number of its own where none is set.
    os.environ.setdefault(environment.OMP_NUM_THREADS, str(job.threads))
    torch.set_num_threads(job.threads)
    events = RemoteEvents(job.line) if rank == 0 else NoEvents()
    kept = RemoteCheckpoints(job.line, job.latest) if job.keeps else None
    try:
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        job.body(replace(job.context, events=events, checkpoints=kept))
        if distributed.is_initialized():
            distributed.destroy_process_group()
    except BaseException as error:
        traceback.print_exc()
        bad_input = isinstance(error, InputError)
        line = str(error) if bad_input else f"training process {rank}: {one_line(error)}"
        report = json.dumps({"bad_input": bad_input, "line": line})
        (job.reports / f"{rank}.json").write_text(report, encoding="utf-8")
        raise SystemExit(1) from None


def _end_with_starter() -> None:
    starter = multiprocessing.parent_process()
    if starter is not None:
        starter.join()
        os._exit(70)


def _failure(error: ChildFailedError, reports: Path) -> Exception:
    """The line of the process that failed: bad input, else a signal's, else the first; others fail in its wake."""
    found = sorted(reports.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
    lines = [json.loads(file.read_text(encoding="utf-8")) for file in found]
    for report in lines:
        if report["bad_input"]:
            return InputError(report["line"])
    rank, first = error.get_first_failure()
    killed = [(r, f) for r, f in error.failures.items() if f.exitcode < 0]
    if killed:
        rank, first = min(killed, key=lambda item: item[1].timestamp)
        return ProcessFailed(f"training process {rank} was ended by {first.signal_name()}")
    if lines:
        return ProcessFailed(lines[0]["line"])
    return ProcessFailed(f"training process {rank} ended with status {first.exitcode}")
