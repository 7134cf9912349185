"""Live pages: a run is shipped to MLflow while its steps go on."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Iterator

from multiview.artifacts.store import Store
from multiview.tracking.shipping import ship

SECONDS = 20.0
"""Between two shipments."""
PATIENCE_SECONDS = 60.0
"""How long the end of the block waits for a shipment that has begun."""


@contextlib.contextmanager
def ship_live(store: Store, run_id: str, uri: str, only: Collection[str] | None = None) -> Iterator[None]:
    """Ship a run to MLflow now and then while the block runs; `only` is as in `ship`.

    What cannot be shipped now is left to the caller's own `ship` after the block, which can report errors.
    """
    done = threading.Event()

    def work() -> None:
        while not done.wait(SECONDS):
            with contextlib.suppress(Exception):
                ship(store, run_id, uri, only=only)

    thread = threading.Thread(target=work, daemon=True, name="shipping")
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(timeout=PATIENCE_SECONDS)
