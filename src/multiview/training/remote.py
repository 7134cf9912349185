"""A training process calls the process that started it, which alone talks to the store: its events and checkpoints.

What can be called is declared on both ends: by the methods of `RemoteEvents` and `RemoteCheckpoints` here, by
`declared_calls` there.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from multiview.errors import InputError, one_line
from multiview.steps.checkpoints import Checkpoints
from multiview.steps.events import Events


class RemoteEvents:
    """The events of the starting process, told by the first process of a training; each call waits for its answer.

    What a call raises there ends the training there; here it is a RuntimeError.
    """

    def __init__(self, line: Connection) -> None:
        self._line = line

    def metric(self, name: str, value: float, step: int | None = None) -> None:
        _call(self._line, "metric", name, value, step)

    def warning(self, text: str) -> None:
        _call(self._line, "warning", text)

    def fact(self, name: str, value: Any) -> None:
        _call(self._line, "fact", name, value)

    def progress(self, done: int, total: int, unit: str) -> None:
        _call(self._line, "progress", done, total, unit)


class RemoteCheckpoints:
    """The checkpoint that the starting process found, and its checkpoints for further ones; errors as in `RemoteEvents`."""

    def __init__(self, line: Connection, found: Path | None) -> None:
        self._line, self._found = line, found

    def latest(self) -> Path | None:
        return self._found

    def publish(self, step: int, folder: Path) -> None:
        _call(self._line, "publish", step, folder)


def declared_calls(events: Events, checkpoints: Checkpoints | None) -> dict[str, Callable[..., None]]:
    """The methods that training processes may call, by name."""
    calls: dict[str, Callable[..., None]] = {
        "metric": events.metric,
        "warning": events.warning,
        "fact": events.fact,
        "progress": events.progress,
    }
    if checkpoints is not None:
        calls["publish"] = checkpoints.publish
    return calls


@contextlib.contextmanager
def answering(calls: Mapping[str, Callable[..., None]]) -> Iterator[tuple[Connection, list[BaseException]]]:
    """A line on which one process may make `calls`, and the errors that they raised so far.

    Any other call is refused: an error like those of the calls themselves.
    """
    here, there = Pipe()
    raised: list[BaseException] = []
    thread = threading.Thread(target=_answer, args=(here, calls, raised), daemon=True, name="answering")
    thread.start()
    try:
        yield there, raised
    finally:
        # The last holder of the other end but for us is gone: this ends the thread.
        there.close()
        thread.join()
        here.close()


def _call(line: Connection, name: str, *arguments: Any) -> None:
    """Make a call and wait for its end."""
    line.send((name, arguments))
    problem = line.recv()
    if problem is not None:
        raise RuntimeError(problem)


def _answer(line: Connection, calls: Mapping[str, Callable[..., None]], raised: list[BaseException]) -> None:
    while True:
        try:
            name, arguments = line.recv()
        except (EOFError, OSError):
            return
        problem = None
        try:
            if name not in calls:
                raise RuntimeError(f"{name} is not for training processes to call: {', '.join(calls)} are")
            calls[name](*arguments)
        except BaseException as error:
            raised.append(error)
            problem = str(error) if isinstance(error, InputError) else one_line(error)
        with contextlib.suppress(OSError):  # the caller is gone
            line.send(problem)
