"""Long work that several requests wait for."""

from __future__ import annotations

import asyncio
import threading

import pytest

from multiview.serving.batching import TooManyWaiting
from multiview.serving.named_indexes import MOST_UNDER_WAY, SingleFlight


def test_a_work_is_done_once_for_all_who_wait_and_to_its_end_when_they_have_gone():
    begun: list[str] = []
    free = threading.Event()

    def work(name: str) -> str:
        begun.append(name)
        assert free.wait(60)
        return name

    async def ask() -> None:
        flight = SingleFlight()
        first = asyncio.create_task(flight.result("a", lambda: work("a")))
        second = asyncio.create_task(flight.result("a", lambda: work("again")))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await flight.result("b", lambda: work("b"))
        more = [
            asyncio.create_task(flight.result(str(n), lambda: work("more")))
            for n in range(MOST_UNDER_WAY - 2)
        ]
        await asyncio.sleep(0)
        with pytest.raises(TooManyWaiting):
            await flight.result("one too many", lambda: work("more"))
        again = asyncio.create_task(flight.result("b", lambda: work("b again")))
        await asyncio.sleep(0)
        free.set()
        assert [await first, await second] == ["a", "a"]
        assert await again == "b"
        await asyncio.gather(*more)
        assert sorted(begun) == ["a", "b", *["more"] * (MOST_UNDER_WAY - 2)]
        assert await flight.result("a", lambda: work("later")) == "later"

    asyncio.run(ask())


def test_a_failure_reaches_who_waits_and_the_next_who_asks_tries_again():
    async def ask() -> None:
        flight = SingleFlight()
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                await flight.result("a", lambda: 1 // 0)
        assert await flight.result("a", lambda: 1) == 1

    asyncio.run(ask())
