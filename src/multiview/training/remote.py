"""A training process calls objects of the process that started it, which alone talks to the store."""

import contextlib
import threading
from collections.abc import Iterator, Mapping
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from multiview.errors import InputError, one_line


class Remote:
    """An object of the starting process: a method called here runs there, and the call waits for it.

    What it raises there ends the training there; here it is a RuntimeError.
    """

    def __init__(self, line: Connection, name: str) -> None:
        self._line, self._name = line, name

    def __getattr__(self, method: str) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            self._line.send((self._name, method, arguments, named))
            problem, result = self._line.recv()
            if problem is not None:
                raise RuntimeError(problem)
            return result

        return call


@contextlib.contextmanager
def answering(objects: Mapping[str, Any]) -> Iterator[tuple[Connection, list[BaseException]]]:
    """A line on which one process may call `objects` by name, and what they raised so far."""
    here, there = Pipe()
    raised: list[BaseException] = []
    thread = threading.Thread(target=_answer, args=(here, objects, raised), daemon=True, name="answering")
    thread.start()
    try:
        yield there, raised
    finally:
        # The last holder of the other end but for us is gone: this ends the thread.
        there.close()
        thread.join()
        here.close()


def _answer(line: Connection, objects: Mapping[str, Any], raised: list[BaseException]) -> None:
    while True:
        try:
            name, method, arguments, named = line.recv()
        except (EOFError, OSError):
            return
        problem = result = None
        try:
            result = getattr(objects[name], method)(*arguments, **named)
        except BaseException as error:
            raised.append(error)
            problem = str(error) if isinstance(error, InputError) else one_line(error)
        with contextlib.suppress(OSError):  # the caller is gone
            line.send((problem, result))
