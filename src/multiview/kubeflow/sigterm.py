"""SIGTERM in a step's pod: records in the step's state and its MLflow run that it was killed."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

from multiview import names
from multiview.steps.work import StepReporter, Termination

REPORT_SECONDS = 10.0
"""Most seconds that the end of the block waits for the report."""
END = b"\0"
"""Tells the reporting thread to end, among the numbers of signals. The end of the pipe's input would not: a forked child has
its writing end too."""


@contextlib.contextmanager
def killed_by_sigterm(reporter: StepReporter, uri: str | None) -> Iterator[None]:
    """While the block runs, SIGTERM marks the step as killed at once, also in MLflow at `uri`, and ends the block with
    `Termination`. A thread records it: the main thread, which handles signals, may be in a library for minutes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    last_words = threading.Thread(target=_wait, args=(reading, reporter, uri), daemon=True)
    last_words.start()
    told_before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    handler_before = signal.signal(signal.SIGTERM, _raise)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler_before)
        signal.set_wakeup_fd(told_before)
        os.write(writing, END)
        last_words.join(REPORT_SECONDS)
        os.close(writing)


def _raise(number: int, frame: object) -> None:
    raise Termination


def _leave_to_child() -> None:
    """Restores SIGTERM's default in a forked child, such as a reader's worker, which would report this step killed."""
    if signal.getsignal(signal.SIGTERM) is _raise:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)


os.register_at_fork(after_in_child=_leave_to_child)


def _wait(reading: int, reporter: StepReporter, uri: str | None) -> None:
    """Reports each SIGTERM among the signal numbers that it reads, until `END`."""
    with open(reading, "rb", buffering=0) as signals:
        while (number := signals.read(1)) != END:
            if number[0] == signal.SIGTERM and not reporter.state.finished:
                with contextlib.suppress(Exception):
                    _report(reporter, uri)


def _report(reporter: StepReporter, uri: str | None) -> None:
    """Records that the step was killed in its state, in MLflow and, for whoever closes the run, in the store."""
    reporter.fail(Termination())
    reporter.store.replace(f"{names.KILLED}/{reporter.run}", b"")
    if uri:
        from multiview import tracking

        tracking.kill_step(reporter.store, reporter.run, reporter.state, uri)
