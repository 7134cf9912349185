"""Shipping to MLflow while a run continues, so that MLflow's pages are live."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterator

from multiview.artifacts.store import Store
from multiview.tracking.shipping import link, ship

SHIP_SECONDS = 20.0
"""Seconds between two shipments of a run in progress."""

SOON_SECONDS = 3.0
"""Seconds before the first shipment of a run that starts at once: its first step is then at work, in another process."""

END_SECONDS = 60.0
"""Seconds that the end of a run waits for a shipment that is under way."""

STEP_END_SECONDS = 10.0
"""Seconds that the end of a step in its pod waits for shipments that are under way."""


@contextlib.contextmanager
def ship_live(
    store: Store,
    run_id: str,
    uri: str,
    only: Collection[str] | None = None,
    soon: bool = False,
    end_seconds: float | None = None,
) -> Iterator[None]:
    """Ships a run, or `only` the steps of some paths, now and then while the block runs.

    A shipment that is under way at the end has `end_seconds` more, by default `END_SECONDS`.
    With `soon` the first time is after `SOON_SECONDS`: to import MLflow and to start its store takes seconds, which a
    short run would spend at its end. Results never wait for MLflow: a shipment that fails is left to a later one.
    """
    ended = threading.Event()

    def ship_now_and_then() -> None:
        pause = min(SOON_SECONDS, SHIP_SECONDS) if soon else SHIP_SECONDS
        while not ended.wait(pause):
            with contextlib.suppress(Exception):
                ship(store, run_id, uri, only)
            pause = SHIP_SECONDS

    thread = _started(ship_now_and_then)
    try:
        yield
    finally:
        ended.set()
        thread.join(timeout=END_SECONDS if end_seconds is None else end_seconds)


@contextlib.contextmanager
def ship_step_live(
    store: Store, run_id: str, path: str, uri: str, plugin_run: str | None = None
) -> Iterator[None]:
    """Ships one step of a run while the block runs, and once more at its end.

    `plugin_run` is the run that Kubeflow's MLflow plugin made for the step, if it made one: it is tagged with the
    step. A shipment that fails, or has not ended `STEP_END_SECONDS` after the step, is left to the last step of the run, or
    to `multiview sync`: no step waits for a slow server.
    """

    def ship_at_last() -> None:
        with contextlib.suppress(Exception):
            if plugin_run:
                link(uri, plugin_run, run_id, path)
            ship(store, run_id, uri, only={path})

    ended = 0.0
    try:
        with ship_live(store, run_id, uri, {path}, end_seconds=STEP_END_SECONDS):
            try:
                yield
            finally:
                ended = time.monotonic()
    finally:
        _started(ship_at_last).join(timeout=max(0, ended + STEP_END_SECONDS - time.monotonic()))


def _started(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True, name="shipping")
    thread.start()
    return thread
