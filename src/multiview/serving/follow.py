"""Following the champion: the next one is loaded and verified beside the old one, which answers until then.

A request keeps to its end the generation that answered when it began. A replaced generation is dropped, with its memory
and its local copies, when the last request that uses it has ended.
"""

import contextlib
import gc
import logging
import shutil
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multiview.artifacts.champions import Champion, address_of, champion_of, current
from multiview.artifacts.store import Store
from multiview.errors import InputError, one_line, safe
from multiview.refresh.freshness import Freshness, freshness
from multiview.serving.hits import Hit
from multiview.serving.limits import POLL_SECONDS
from multiview.serving.retriever import Retriever, load

RETRY_SECONDS = 60.0
"""Time after which a champion that could not be loaded is tried again."""
LOOK_SECONDS = 60.0
"""Time between two looks at the store's refreshes, each of which may list thousands of files."""
TRIAL = "which passage answers?"
"""The question that a retriever must answer before it gets those of users."""

log = logging.getLogger(__name__)


@dataclass(eq=False)
class Generation:
    """A retriever, and the champion that it was loaded for; None for an index that was named."""

    retriever: Retriever
    champion: Champion | None = None
    problem: str = ""
    """Why the last search failed, in one line; empty where it did not."""

    @property
    def number(self) -> int | None:
        """The champion's number; None for an index that was named."""
        return self.champion.number if self.champion else None

    @property
    def name(self) -> str:
        """`champion 17, index ADDRESS`; for an index that was named, `index ADDRESS`."""
        champion = f"champion {self.champion.number}, " if self.champion else ""
        return f"{champion}index {self.retriever.address}"


class Generations:
    """The generation that answers, indexes that requests named, and replaced generations that requests still use."""

    def __init__(self, first: Generation) -> None:
        self._lock = threading.Lock()
        self.newest = first
        """The generation that answers new requests; `using` holds it."""
        self._beside: dict[str, Generation] = {}  # by address, the least recently used first
        self._replaced = weakref.WeakSet[Generation]()  # those that a request still holds
        self._retired = weakref.WeakSet[Retriever]()  # theirs, and those that somebody else holds
        self._loading = 0
        self._copies_lock = threading.Lock()
        self._leftover: set[Path] = set()

    @property
    def ending(self) -> int:
        """Number of replaced generations that still have requests."""
        return len(self._replaced)

    @contextlib.contextmanager
    def using(self, address: str | None = None) -> Iterator[Generation]:
        """Holds the generation that answers now, or the index at `address`, until the end of the block, even if it is
        replaced meanwhile. Raises KeyError for an index that is not loaded."""
        with self._lock:
            generation = self.newest
            if address not in (None, generation.retriever.address):
                generation = self._beside[address] = self._beside.pop(address)
        yield generation

    def replace(self, following: Generation) -> None:
        """Lets another generation answer from now on."""
        with self._lock:
            self._retire(self.newest)
            if named := self._beside.pop(following.retriever.address, None):  # or it would be in memory twice
                self._retire(named)
            self.newest = following

    def loaded(self, address: str) -> bool:
        """Returns whether the index at `address` answers, or is loaded beside the one that does."""
        with self._lock:
            return address in (self.newest.retriever.address, *self._beside)

    def load_beside(self, address: str, most: int, **how: Any) -> None:
        """Loads an index for requests that name it; the `most` such indexes that were named last stay loaded. `how` are
        options of `load`. Raises InputError if it cannot be loaded."""
        try:
            with self.loading() as copies:
                other = Generation(_loaded(address, copies=copies, **how))
                with self._lock:
                    self._beside.setdefault(address, other)
                    while len(self._beside) > most:
                        self._retire(self._beside.pop(next(iter(self._beside))))
        finally:
            self.remove_copies()

    @contextlib.contextmanager
    def loading(self) -> Iterator[list[Path]]:
        """Keeps all local copies while the block loads an index, which may read them; yields a list for the copies that
        it makes, which are left over if it fails."""
        copies: list[Path] = []
        with self._copies_lock:
            self._loading += 1
        try:
            yield copies
        except Exception:
            with self._lock:
                self._leftover.update(copies)
            raise
        finally:
            with self._copies_lock:
                self._loading -= 1

    def remove_copies(self) -> None:
        """Removes local copies that no generation reads any more; does nothing while an index is being loaded."""
        with self._copies_lock:
            if self._loading:
                return
            with self._lock:
                kept = (each.retriever for each in (self.newest, *self._beside.values()))
                used = set().union(*(each.copies for each in (*kept, *self._retired)))
                unused = self._leftover - used
                self._leftover -= unused
            for folder in unused:
                shutil.rmtree(folder, ignore_errors=True)

    def _retire(self, generation: Generation) -> None:
        self._replaced.add(generation)
        self._retired.add(generation.retriever)
        self._leftover.update(generation.retriever.copies)


def open_generation(store: Store, champion: Champion, **how: Any) -> Generation:
    """Returns a champion's generation, with every byte checked and a trial question answered; `how` are options of
    `load`. Raises InputError for a damaged artifact."""
    retriever = _loaded(address_of(store, champion), verify=True, **how)
    retriever.search([TRIAL], k=1)
    return Generation(retriever, champion)


def _loaded(address: str, **how: Any) -> Retriever:
    """Loads an index and sorts its ids, so that the first request with tied passages need not wait."""
    retriever = load(address, **how)
    retriever.index.tie_order.sort()
    return retriever


class Follower:
    """Keeps the store's champion answering; each `check` looks for a new one."""

    def __init__(self, store: Store, **how: Any) -> None:
        """Loads the champion; `how` are options of `load`. Raises InputError where the store has none, or it cannot be loaded."""
        champion = champion_of(store)
        self._store, self._how = store, how
        self.generations = Generations(open_generation(store, champion, **self._how))
        self.problem = ""
        """Why the store's champion does not answer, in one line; empty where it does."""
        self.loads = 0
        """Number of champions that were loaded after the first."""
        self.failures = 0
        """Number of times that a champion could not be loaded."""
        self.freshness: Freshness | None = None
        """How fresh the corpus of the answering champion is; None before the first `look`."""
        self._look_at, self._noticed = 0.0, False
        self._failed: Champion | None = None
        self._retry_at = 0.0
        self._checking = threading.Lock()

    def check(self) -> bool:
        """Switches to the store's champion if an older one answers; returns whether it did. Where the new one cannot be
        loaded, this is logged and told in `problem`, and the old one goes on; the same champion is tried again after
        `RETRY_SECONDS`, another one at once. One thread checks at a time; others return immediately."""
        if not self._checking.acquire(blocking=False):
            return False
        try:
            return self._check()
        except Exception as error:  # whatever it is, the old champion goes on
            self._report_failure(one_line(error))
            return False
        finally:
            self._checking.release()

    def _check(self) -> bool:
        champion = current(self._store)
        if champion is None or champion != self._failed:  # which is tried again, with the copies that it has
            self.generations.remove_copies()
        answering = self.generations.newest
        if champion is None or champion == answering.champion:
            self.problem, self._failed = "", None
            return False
        if champion == self._failed and time.monotonic() < self._retry_at:
            return False
        self._failed, self._retry_at = champion, time.monotonic() + RETRY_SECONDS
        log.info("champion %d: loading beside %s", champion.number, answering.name)
        with self.generations.loading() as copies:
            try:
                following = open_generation(self._store, champion, copies=copies, **self._how)
            except Exception as error:
                raise InputError(
                    f"champion {champion.number} could not be loaded: {one_line(error)}"
                ) from error
            self.generations.replace(following)
        self.problem, self._failed = "", None
        self.loads, self._look_at = self.loads + 1, 0.0
        log.info("%s answers", following.name)
        del answering
        gc.collect()  # frees what was replaced, even if it is in reference cycles
        return True

    def look(self) -> None:
        """Checks how old the champion's corpus is, at most once a minute, and logs a warning once it is too old."""
        champion = self.generations.newest.champion
        if champion is None or time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + LOOK_SECONDS
        try:
            self.freshness = freshness(self._store, champion)
        except Exception as error:  # whatever it is, the champion goes on
            log.error("how old the corpus is cannot be said: %s", safe(one_line(error)))
        notice = self.freshness.notice if self.freshness else ""
        if notice and not self._noticed:
            log.warning("%s", notice)
        self._noticed = bool(notice)

    def _report_failure(self, why: str) -> None:
        self.failures += 1
        if why != self.problem:
            log.error("%s; %s goes on answering", safe(why), self.generations.newest.name)
        self.problem = why


class ChampionRetriever:
    """Answers from the store's champion even as it changes: `load("champion", follow=True)`. A question makes a
    background thread look for a new champion, at most every `POLL_SECONDS`; the old one answers until the new one is
    loaded."""

    def __init__(self, follower: Follower) -> None:
        self._follower, self._next = follower, time.monotonic() + POLL_SECONDS

    @property
    def retriever(self) -> Retriever:
        """The retriever that answers now; while it is held, its memory and its local copies are kept."""
        self._look()
        return self._follower.generations.newest.retriever

    @property
    def problem(self) -> str:
        """Why the store's champion does not answer, in one line; empty where it does."""
        return self._follower.problem

    def search(
        self, questions: Sequence[str], k: int = 10, *, explain: bool = False, where: str | None = None
    ) -> list[list[Hit]]:
        """Returns the k best passages of each question, all from one champion (see `Retriever.search`)."""
        self._look()
        with self._follower.generations.using() as generation:
            return generation.retriever.search(questions, k, explain=explain, where=where)

    def _look(self) -> None:
        if (now := time.monotonic()) >= self._next:
            self._next = now + POLL_SECONDS
            threading.Thread(target=self._follower.check, daemon=True).start()
