"""Local steps' work in forks of one process that has imported, once, what takes each of them ten seconds.

The driver offers a socket (`offer`). A step that imports torch sends its state there (`make`) and waits; the
process at the other end imports its libraries when it is first asked, and forks for each step. A fork ends with
the step that asked for it, and the process with its driver. Linux alone, and torch without CUDA, which does not
survive a fork: elsewhere each step works in its own process, as it does in a pod.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from multiview.errors import InputError, ProcessFailed, one_line

if TYPE_CHECKING:
    from multiview.steps.work import StepTeller

FORKS = "MULTIVIEW_FORKS"
"""Environment variable: the socket where forks are offered."""

SOCKET = "socket"
"""Its file's name, in a folder that no other user can enter."""

IMPORTED = (
    *(
        "multiview.encoding.encode",
        "multiview.evaluation.analyses.run",
        "multiview.index",
        "multiview.training.train",
    ),
    "multiview.steps.work",
)
"""What is imported before the first fork."""


class Order(BaseModel, frozen=True):
    """The work of one step, as it is sent to a fork."""

    store: str
    run: str
    state: dict[str, Any]
    sources: Any
    environment: dict[str, str]
    folder: str


class Answer(BaseModel, frozen=True):
    """What came of it."""

    attempt: str
    """The attempt's folder, as in a step's state."""
    error: str | None = None
    bad_input: bool = False


def offered() -> bool:
    """Whether this process was offered forks."""
    return FORKS in os.environ


@contextlib.contextmanager
def offer(log: Path) -> Iterator[None]:
    """Offer forks to the steps that are started in the block, where there can be any and nobody offers them yet;
    `log` gets what is said before the first."""
    if offered() or sys.platform != "linux" or not metadata.version("torch").endswith("+cpu"):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="multiview-forks-") as folder:
        with listen(folder) as listener, log.open("ab") as said:
            server = subprocess.Popen(
                [sys.executable, "-m", "multiview.steps.backends.fork_server", str(listener.fileno())],
                stdin=subprocess.PIPE,  # whose end tells it that the driver is gone
                stdout=said,
                stderr=said,
                pass_fds=[listener.fileno()],
            )
        os.environ[FORKS] = f"{folder}/{SOCKET}"
        try:
            yield
        finally:
            os.environ.pop(FORKS, None)
            server.kill()
            server.communicate()


def make(told: StepTeller, sources: Any) -> str:
    """Have the work of `told.state` done in a fork; the folder of its attempt. The outputs are in the store then.

    Raises InputError with the fork's own line, ProcessFailed for every other failure.
    """
    order = Order(
        store=told.store.url,
        run=told.run,
        state=told.state.model_dump(mode="json"),
        sources=sources,
        environment=dict(os.environ),
        folder=str(Path.cwd()),
    )
    try:
        line = _ask(order)
    except ConnectionError:
        line = b""
    if not line:
        raise ProcessFailed("its process ended without a word (killed, or out of memory?)")
    answer = Answer.model_validate_json(line)
    if answer.error is not None:
        told.state = told.state.model_copy(update={"attempt": answer.attempt})
        raise InputError(answer.error) if answer.bad_input else ProcessFailed(answer.error)
    return answer.attempt


def _ask(order: Order) -> bytes:
    """The line that a fork answers; empty if it ended without."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ[FORKS])
        socket.send_fds(connection, [b"."], [1, 2])
        connection.sendall(order.model_dump_json().encode() + b"\n")
        return connection.makefile("rb").readline()


def listen(folder: str) -> socket.socket:
    """The socket in `folder` that steps connect to."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{folder}/{SOCKET}")
    listener.listen(64)
    return listener


def serve(listener: socket.socket, driver: int) -> None:
    """Fork for every connection until the file descriptor `driver` ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # steps and driver are told too, and end this one
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for forks: their connections tell
    imported = False
    while driver not in select.select([listener, driver], [], [])[0]:
        connection, _ = listener.accept()
        if not imported:
            for module in IMPORTED:
                import_module(module)
            imported = True
        if os.fork() == 0:
            listener.close()
            _work(connection)
        connection.close()


def _work(connection: socket.socket) -> None:
    """In a fork: do what the connection asks for, answer, and end."""
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
        del os.environ[FORKS]
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
    from multiview.artifacts.store import open_store
    from multiview.steps.runs import StepState
    from multiview.steps.work import StepTeller, Work
    from multiview.steps.work import make as make_here

    state = StepState.model_validate(order.state)
    told = StepTeller(open_store(order.store), order.run, state.path, state.step)
    told.state = state
    try:
        make_here(Work.told(state, order.sources), told)
    except InputError as error:
        return Answer(attempt=told.state.attempt, error=str(error), bad_input=True)
    except Exception as error:
        traceback.print_exc()
        return Answer(attempt=told.state.attempt, error=one_line(error))
    return Answer(attempt=told.state.attempt)


def _end_with(connection: socket.socket) -> None:
    """End this fork when the step that asked for it is gone."""
    with contextlib.suppress(OSError):
        while connection.recv(1):
            pass
    os._exit(70)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), sys.stdin.fileno())
