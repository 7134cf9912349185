"""Calls from a training process to the process that started it, which alone talks to the store.

Both ends declare the calls: the training process by the methods of `RemoteEvents` and `RemoteCheckpoints`, the
starting process by `declared_calls`.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

from multiview.errors import InputError, one_line
from multiview.steps.checkpoints import Checkpoints
from multiview.steps.events import Events


class RemoteEvents(Events):
    """The events of the starting process, reported by the first process of a training; each call waits for its answer.

    An error that a call raises in the starting process ends the training; the training process gets a RuntimeError.
    """

    def __init__(self, line: Connection) -> None:
        self._line = line

    def metric(self, name: str, value: float, step: int | None = None) -> None:
        _call(self._line, "metric", name, value, step)

    def warning(self, text: str) -> None:
        _call(self._line, "warning", text)

    def fact(self, name: str, value: object) -> None:
        _call(self._line, "fact", name, value)

    def progress(self, done: int, total: int, unit: str) -> None:
        _call(self._line, "progress", done, total, unit)


class RemoteCheckpoints:
    """The checkpoints of the starting process: the latest, which it found, and calls that publish further ones.

    Errors are those of `RemoteEvents`.
    """

    def __init__(self, line: Connection, latest: Path | None) -> None:
        self._line, self._latest = line, latest

    def latest(self) -> Path | None:
        return self._latest

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
    """A connection on which one process may make `calls`, and the errors that the calls raised so far.

    Any other call is refused, with an error like those that calls raise.
    """
    starter_end, caller_end = Pipe()
    raised: list[BaseException] = []
    thread = threading.Thread(
        target=_answer, args=(starter_end, calls, raised), daemon=True, name="answering"
    )
    thread.start()
    try:
        yield caller_end, raised
    finally:
        # No other process holds the caller's end any more, so closing it here ends the thread.
        caller_end.close()
        thread.join()
        starter_end.close()


def _call(line: Connection, name: str, *arguments: object) -> None:
    """Makes a call and waits until it is done."""
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
