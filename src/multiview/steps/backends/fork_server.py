"""Forks that do the work of local steps, from one process that imports the slow libraries once.

Importing them takes about ten seconds, which each step would spend again in a process of its own.

The driver offers a socket (`offer`). A step that imports torch sends its state there (`ForkServer`) and waits; the
process at the other end imports its libraries, while the first step's process starts, and forks for each step. A fork
ends with the step that asked for it, and the process with its driver. Linux alone, and torch without CUDA, which does
not survive a fork: elsewhere each step works in its own process, as it does in a pod.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterable, Iterator
from importlib import import_module, metadata
from pathlib import Path

from pydantic import BaseModel

from multiview import environment
from multiview.artifacts.record import Record
from multiview.artifacts.scratch import remove_scratch
from multiview.artifacts.store import open_store
from multiview.config import JsonObject
from multiview.errors import InputError, ProcessFailed, one_line
from multiview.steps.backends.here import Here
from multiview.steps.reporter import StepReporter
from multiview.steps.runs import StepState
from multiview.steps.step import Step
from multiview.steps.work import Work

SOCKET = "socket"
"""Name of the socket's file, in a folder that no other user can enter."""

LAZY = ("pandas", "pyarrow.dataset", "multiview.encoding.encode")
"""Modules that nearly every step imports while it works, for half a second: pyarrow asks pandas about each array."""

WHOLE_MODELS = ("transformers.models.bert.modeling_bert",)
"""Modules that steps import while they work, unless they encode no passages; they take two seconds."""

WITHOUT_PASSAGES = frozenset({"index", "refresh-index", "mine", "evaluate"})
"""Steps that encode questions alone, or nothing. Analyses that encode passages import `WHOLE_MODELS` themselves."""


class Order(BaseModel, frozen=True):
    """The work of one step, in the form that is sent to a fork."""

    store: str
    run: str
    state: StepState
    sources: JsonObject
    environment: dict[str, str]
    folder: str


class Answer(BaseModel, frozen=True):
    """The result of an order."""

    attempt: str
    """The attempt's folder, as in a step's state."""
    error: str | None = None
    bad_input: bool = False


class ForkServer:
    """Lets a fork of the process behind `socket` do the work."""

    def __init__(self, socket: str) -> None:
        self._socket = socket

    def make(self, work: Work, reporter: StepReporter) -> dict[str, Record]:
        """Sends the work and waits for it. Raises InputError with the fork's line, ProcessFailed for other failures."""
        order = Order(
            store=reporter.store.url,
            run=reporter.run,
            state=reporter.state,
            sources=work.sources,
            environment=dict(os.environ),
            folder=str(Path.cwd()),
        )
        try:
            line = _ask(self._socket, order)
        except ConnectionError:
            line = b""
        if not line:
            raise ProcessFailed("its process ended without a word (killed, or out of memory?)")
        answer = Answer.model_validate_json(line)
        reporter.attempted(answer.attempt)
        if answer.error is not None:
            raise InputError(answer.error) if answer.bad_input else ProcessFailed(answer.error)
        return work.find(reporter.store)


def address() -> str | None:
    """Returns the socket of the fork server that is offered to this process; None if there is none."""
    return os.environ.get(environment.FORK_SERVER)


@contextlib.contextmanager
def offer(log: Path, steps: Iterable[Step]) -> Iterator[None]:
    """Offers forks to those of the `steps` started in the block that import torch, where forks are possible and not
    offered yet; `log` gets what the process at the socket says. Other steps may ask too, but import their modules in
    their forks."""
    possible = sys.platform == "linux" and metadata.version("torch").endswith("+cpu")
    if address() or not possible or not (modules := preloaded(steps)):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="multiview-forks-") as folder:
        with listen(folder) as listener, log.open("ab") as said:
            server = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "multiview.steps.backends.fork_server",
                    str(listener.fileno()),
                    *modules,
                ],
                stdin=subprocess.PIPE,  # closed when the driver is gone, which ends the server
                stdout=said,
                stderr=said,
                pass_fds=[listener.fileno()],
            )
        os.environ[environment.FORK_SERVER] = f"{folder}/{SOCKET}"
        try:
            yield
        finally:
            os.environ.pop(environment.FORK_SERVER, None)
            server.kill()
            server.communicate()


def _ask(server: str, order: Order) -> bytes:
    """Returns the line that a fork answers; empty if the fork ended without an answer."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(server)
        socket.send_fds(connection, [b"."], [1, 2])
        connection.sendall(order.model_dump_json().encode() + b"\n")
        return connection.makefile("rb").readline()


def listen(folder: str) -> socket.socket:
    """Returns the socket in `folder` that steps connect to."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{folder}/{SOCKET}")
    listener.listen(64)
    return listener


def serve(listener: socket.socket, driver: int, modules: Iterable[str]) -> None:
    """Imports `modules` and forks for every connection, until the file descriptor `driver` ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # steps and driver get the signal too, and end this process
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for forks: their connections tell
    for module in modules:
        import_module(module)
    gc.freeze()  # else each fork copies all that its first collection looks at: a third of a second
    while driver not in select.select([listener, driver], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _work(connection)
        connection.close()


def preloaded(steps: Iterable[Step]) -> list[str]:
    """Returns the modules that are imported before the first fork: those of the `steps` that import torch, and of their
    work; none where no step does."""
    if not (forked := [step for step in steps if step.torch]):
        return []
    whole = any(step.name not in WITHOUT_PASSAGES for step in forked)
    modules = sorted({step.run.partition(":")[0] for step in forked})
    return [*modules, *LAZY, *(WHOLE_MODELS if whole else ())]


def _work(connection: socket.socket) -> None:
    """In a fork: does the work that the connection asks for, answers, and ends."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _, outputs, *_ = socket.recv_fds(connection, 1, 2)
        for number, output in zip((1, 2), outputs, strict=True):
            os.dup2(output, number)
            os.close(output)
        order = Order.model_validate_json(connection.makefile("rb").readline())
        threading.Thread(target=_end_with, args=[connection], daemon=True).start()
        os.environ.clear()
        os.environ.update(order.environment)
        del os.environ[environment.FORK_SERVER]
        os.chdir(order.folder)
        answer = _made(order)
        sys.stdout.flush()
        sys.stderr.flush()
        connection.sendall(answer.model_dump_json().encode() + b"\n")
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(0)


def _made(order: Order) -> Answer:
    reporter = StepReporter.of_state(open_store(order.store), order.run, order.state)
    try:
        Here().make(Work.from_state(order.state, order.sources), reporter)
    except InputError as error:
        return Answer(attempt=reporter.state.attempt, error=str(error), bad_input=True)
    except Exception as error:
        traceback.print_exc()
        return Answer(attempt=reporter.state.attempt, error=one_line(error))
    finally:
        remove_scratch()
    return Answer(attempt=reporter.state.attempt)


def _end_with(connection: socket.socket) -> None:
    """Ends this fork when the step that asked for it is gone."""
    with contextlib.suppress(OSError):
        while connection.recv(1):
            pass
    remove_scratch()
    os._exit(70)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), sys.stdin.fileno(), sys.argv[2:])
