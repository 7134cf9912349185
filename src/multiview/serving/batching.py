"""Batching of concurrent requests: questions that arrive while the model is busy are searched together.

Each question is encoded alone (`Retriever.search`), and a batch holds only requests with the same `k`, `explain` and
`where` to one retriever, so an answer is the same to the bit whatever it shared a batch with. The pass over the views
is shared.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from multiview.serving.hits import Hit
from multiview.serving.retriever import Retriever


class TooManyWaiting(Exception):
    """No further request may wait."""


@dataclass(frozen=True)
class Search:
    """What requests must have in common to be searched together."""

    k: int = 10
    explain: bool = False
    where: str | None = None


@dataclass(eq=False)
class _WaitingRequest:
    """A request in the queue."""

    retriever: Retriever
    questions: Sequence[str]
    search: Search
    satisfying: np.ndarray | None = None
    """Which passages satisfy the condition, packed (`Retriever.satisfying`)."""
    answers: asyncio.Future[list[list[Hit]]] = field(default_factory=asyncio.Future)


class Batcher:
    """Searches for the requests of one event loop, a batch at a time, in the order of their arrival."""

    def __init__(
        self, questions: int, waiting: int, report_batch: Callable[[int], object] = lambda size: None
    ) -> None:
        """A batch holds up to `questions` questions, or one larger request; up to `waiting` requests may wait.
        `report_batch` gets the size of each batch."""
        self._questions, self._most_waiting, self._report_batch = questions, waiting, report_batch
        self._requests: deque[_WaitingRequest] = deque()
        self._reading = 0
        # Its own thread: the default pool may be full of conditions and passages being read.
        self._thread = ThreadPoolExecutor(1, "multiview-search")
        self._arrived = asyncio.Event()

    @property
    def waiting(self) -> int:
        """Number of requests that wait or whose condition is being read, not counting those in the current batch."""
        return len(self._requests) + self._reading

    async def search(self, retriever: Retriever, questions: Sequence[str], search: Search) -> list[list[Hit]]:
        """Returns the hits of each question. Raises TooManyWaiting, and what the search raises. A condition is
        evaluated before the request is queued, so that other requests do not wait for it."""
        if self.waiting >= self._most_waiting:
            raise TooManyWaiting
        satisfying = None
        if search.where is not None:
            self._reading += 1
            try:
                satisfying = await asyncio.to_thread(retriever.satisfying, search.where)
            finally:
                self._reading -= 1
        request = _WaitingRequest(retriever, questions, search, satisfying)
        self._requests.append(request)
        self._arrived.set()
        try:
            return await request.answers
        finally:
            if request in self._requests:  # the client is gone, or the time is up
                self._requests.remove(request)
            del request  # an error's traceback holds this frame, and the request would hold the error

    async def run(self) -> None:
        """Searches until it is cancelled."""
        while True:
            await self._arrived.wait()
            if self._requests:
                await self._answer(self._next_batch())
            else:
                self._arrived.clear()

    def _next_batch(self) -> list[_WaitingRequest]:
        batch = [first := self._requests.popleft()]
        room = self._questions - len(first.questions)
        for request in list(self._requests):
            alike = request.retriever is first.retriever and request.search == first.search
            if alike and len(request.questions) <= room:
                self._requests.remove(request)
                batch.append(request)
                room -= len(request.questions)
        return batch

    async def _answer(self, batch: list[_WaitingRequest]) -> None:
        retriever, search = batch[0].retriever, batch[0].search
        questions = [question for request in batch for question in request.questions]
        self._report_batch(len(questions))
        try:
            found = await asyncio.get_running_loop().run_in_executor(
                self._thread,
                partial(
                    retriever.search, questions, search.k, explain=search.explain, where=batch[0].satisfying
                ),
            )
        except Exception as error:
            if len(batch) > 1:
                for request in batch:  # alone, so that only the one to blame fails
                    await self._answer([request])
            elif not batch[0].answers.done():
                batch[0].answers.set_exception(error)
            del batch  # as above
            return
        for request in batch:
            if not request.answers.done():  # else it was cancelled meanwhile
                request.answers.set_result(found[: len(request.questions)])
            found = found[len(request.questions) :]
