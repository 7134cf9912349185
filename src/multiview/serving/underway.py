"""Long work that requests wait for, such as loading an index: done once, and to its end whoever waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from multiview.serving.batching import TooManyWaiting

T = TypeVar("T")

MOST = 8
"""Works that may be under way at most; further ones are answered with 429."""


class Underway:
    """Works that a thread of its own does one after the other, for the requests of one event loop."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "multiview-underway")
        self._works: dict[Hashable, asyncio.Future[Any]] = {}

    async def result(self, name: Hashable, work: Callable[[], T]) -> T:
        """Returns the result of a work; that of the same name is waited for where it is under way already.

        Whoever waits may go, as at the end of a request's time: the work goes on, for those who ask again. Raises
        TooManyWaiting, and what the work raises.
        """
        if name not in self._works:
            if len(self._works) >= MOST:
                raise TooManyWaiting
            future = asyncio.get_running_loop().run_in_executor(self._thread, work)
            self._works[name] = future
            future.add_done_callback(lambda done: self._ended(name, done))
        return await asyncio.shield(self._works[name])

    def _ended(self, name: Hashable, done: asyncio.Future[Any]) -> None:
        del self._works[name]
        if not done.cancelled():
            done.exception()  # looked at, lest asyncio logs it where nobody waits any more
