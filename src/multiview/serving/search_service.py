"""What the question-answering routes share: the index that a request names, and a search within the time limit."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from multiview.errors import InputError
from multiview.names import CHAMPION
from multiview.serving.batching import Batcher, Search
from multiview.serving.follow import Follower, Generation, Generations
from multiview.serving.hits import Hit
from multiview.serving.limits import POLL_SECONDS, Limits
from multiview.serving.named_indexes import NamedIndexes, NoSuchIndex
from multiview.serving.question_log import QuestionLog
from multiview.serving.where import ConditionError


@dataclass(frozen=True)
class Serving:
    """What a server serves, and how."""

    generations: Generations
    follower: Follower | None = None
    """Replaces the generation that answers by the next champion; None for an index that was named."""
    named_indexes: NamedIndexes | None = None
    """Indexes that requests may name; if None, they may name no other."""
    limits: Limits = field(default_factory=Limits)
    keys: Sequence[str] = ()
    """API keys; if empty, everybody may ask."""
    question_log: QuestionLog | None = None
    poll_seconds: float = POLL_SECONDS
    """Time between two looks at the store's champion."""
    agents: bool = False
    """Whether agents are answered at `/mcp`; needs the extra `mcp`."""


@dataclass(frozen=True)
class SearchService:
    """The indexes of a server, and the search that its requests share."""

    serving: Serving
    batcher: Batcher

    @contextlib.asynccontextmanager
    async def chosen(self, index: str | None) -> AsyncIterator[Generation]:
        """Holds the generation that a request names until the end of the block. Raises NoSuchIndex, TooManyWaiting, and
        TimeoutError if loading takes too long."""
        newest = self.serving.generations.newest
        async with contextlib.AsyncExitStack() as held:
            if index is None or (index == CHAMPION and newest.champion):
                generation = held.enter_context(self.serving.generations.using())
            elif self.serving.named_indexes is not None:
                async with asyncio.timeout(self.serving.limits.timeout):
                    generation = await held.enter_async_context(self.serving.named_indexes.using(index))
            elif index == (key := newest.retriever.address.rpartition("/")[2]):
                generation = held.enter_context(self.serving.generations.using())
            else:
                raise NoSuchIndex(f"there is no index {index}: this server answers from one index, {key}")
            yield generation

    async def search(
        self, generation: Generation, questions: Sequence[str], search: Search
    ) -> list[list[Hit]]:
        """Returns the hits of each question; an index that cannot be searched is told in `generation.problem` until a
        search succeeds. Raises TooManyWaiting, TimeoutError after `limits.timeout`, and what the search raises."""
        try:
            async with asyncio.timeout(self.serving.limits.timeout):
                hits = await self.batcher.search(generation.retriever, questions, search)
        except ConditionError:
            raise
        except InputError as error:  # not of the request: its questions have been checked
            generation.problem = str(error)
            raise
        generation.problem = ""
        if self.serving.question_log is not None:
            self.serving.question_log.write(generation, search.where, questions, hits)
        return hits
