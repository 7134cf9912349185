"""What every route that answers questions does: it holds the index that a request names, and searches it in time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from multiview.names import CHAMPION
from multiview.serving.batching import Batcher, Search
from multiview.serving.follow import Generation, Generations
from multiview.serving.hits import Hit
from multiview.serving.limits import Limits
from multiview.serving.named_indexes import NamedIndexes, NoSuchIndex
from multiview.serving.question_log import QuestionLog


@dataclass(frozen=True)
class SearchService:
    """The indexes that a server answers from, and the search that its requests share."""

    generations: Generations
    named_indexes: NamedIndexes | None
    """Indexes that requests may name; none: no request may."""
    limits: Limits
    batcher: Batcher
    question_log: QuestionLog | None

    @contextlib.asynccontextmanager
    async def chosen(self, index: str | None) -> AsyncIterator[Generation]:
        """The generation that a request names, to the end of the request. Raises NoSuchIndex."""
        newest = self.generations.newest
        async with contextlib.AsyncExitStack() as held:
            if index is None or (index == CHAMPION and newest.champion):
                generation = held.enter_context(self.generations.using())
            elif self.named_indexes is not None:
                async with asyncio.timeout(self.limits.timeout):
                    generation = await held.enter_async_context(self.named_indexes.using(index))
            elif index == (key := newest.retriever.address.rpartition("/")[2]):
                generation = held.enter_context(self.generations.using())
            else:
                raise NoSuchIndex(f"there is no index {index}: this server answers from one index, {key}")
            yield generation

    async def search(
        self, generation: Generation, questions: Sequence[str], search: Search
    ) -> list[list[Hit]]:
        """Returns the hits of each question, found together with those of other requests.

        Raises TimeoutError after `limits.timeout`, TooManyWaiting where too many requests wait.
        """
        async with asyncio.timeout(self.limits.timeout):
            hits = await self.batcher.search(generation.retriever, questions, search)
        if self.question_log is not None:
            self.question_log.write(generation, search.where, questions, hits)
        return hits
