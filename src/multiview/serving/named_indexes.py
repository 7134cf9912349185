"""Indexes that requests name in place of the one that answers: challenger, earlier champions, any of the store."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from multiview import names
from multiview.artifacts.champions import champion_numbers, current, read_champion
from multiview.artifacts.record import Artifact, Record, read_record, split_address
from multiview.artifacts.store import Store
from multiview.config import Model
from multiview.errors import InputError
from multiview.refresh.champion import challenger_of
from multiview.serving.batching import TooManyWaiting
from multiview.serving.follow import Generation, Generations
from multiview.serving.schemas import IndexChoice

LISTED = 100
"""Number of newest indexes to list, and of newest champions whose indexes are marked as such."""
KEY = re.compile(r"\w[\w.-]{0,254}", re.ASCII)
"""A folder's name; file systems take no longer one."""

MOST_UNDER_WAY = 8
"""Loads and listings that may be under way at once; further ones are answered with 429."""

T = TypeVar("T")


class NoSuchIndex(InputError):
    """A name that matches no index the server may load, or one that cannot be loaded."""


class NamedIndexes:
    """The indexes of one store; the few that requests named last stay loaded."""

    def __init__(
        self, generations: Generations, store: Store, find: Callable[[str], str], most: int, **how: Any
    ) -> None:
        """`find` returns the address of an index by a name as typed by a user, or raises InputError; up to `most` stay
        loaded. `how` are options of `retriever.load`."""
        self._generations, self._store, self._find = generations, store, find
        self._most, self._how = most, how
        self._flights = SingleFlight()

    @contextlib.asynccontextmanager
    async def using(self, name: str) -> AsyncIterator[Generation]:
        """Holds the named index, loaded if need be, until the end of the block. Raises NoSuchIndex, TooManyWaiting."""
        with contextlib.ExitStack() as held:
            address = self._own(name)
            while True:
                try:
                    generation = held.enter_context(self._generations.using(address))
                    break
                except KeyError:  # not loaded, or dropped for others meanwhile
                    address = await self._flights.result(f"load {name}", lambda: self._load(name))
            yield generation

    async def choices(self) -> list[IndexChoice]:
        """Returns the newest indexes of the store: champions by number, then the challenger, then all others by age."""
        return await self._flights.result("choices", lambda: list(self._choices()))

    def _own(self, key: str) -> str:
        """The address of the index with this key, existing or not; the answering one may be in another store."""
        answering = self._generations.newest.retriever.address
        return answering if answering.endswith(f"/{key}") else f"{self._store.url}/{names.INDEX}/{key}"

    def _load(self, name: str) -> str:
        """Loads the named index unless it is loaded; returns its address. Raises NoSuchIndex."""
        try:
            address = self._address(name)
            if not self._generations.loaded(address):
                self._generations.load_beside(address, self._most, **self._how)
        except InputError as error:
            raise NoSuchIndex(str(error)) from error
        return address

    def _address(self, name: str) -> str:
        """The address of the index with this key, else of the one that `find` knows by this name. Raises InputError for
        any other name, and for an index in another store, which is never opened."""
        key = name
        if not KEY.fullmatch(name) or read_record(self._store, names.INDEX, name) is None:
            try:
                url, kind, key = split_address(self._find(name))
            except InputError:
                url, kind, key = "", "", ""
            if (url, kind) != (self._store.url, names.INDEX) or not KEY.fullmatch(key):
                if name in (names.CHAMPION, names.CHALLENGER):
                    raise InputError(f"there is no {name} in the store")
                # What `find` says is for operators, who may see the server's paths.
                raise InputError(
                    f"there is no index {name}: name a key that GET /indexes lists, a run's id, "
                    f"{names.CHAMPION} or {names.CHALLENGER}"
                )
        return self._own(key)

    def _choices(self) -> Iterator[IndexChoice]:
        written = {
            entry.path.split("/")[-2]: entry.modified
            for entry in self._store.entries(names.INDEX)
            if entry.path.endswith(f"/{names.RECORD_FILE}")
        }
        roles = self._roles()
        newest = sorted((key for key in written if key not in roles), key=lambda key: -written[key])
        for key in [*(key for key in roles if key in written), *newest][:LISTED]:
            record = read_record(self._store, names.INDEX, key)
            if record and record.facts.get("passages") != 0:  # as of the champion before the first one
                yield IndexChoice(
                    name=key,
                    roles=roles.get(key, []),
                    architecture=self._architecture(record),
                    kind=kind_of(record),
                    passages=record.facts.get("passages"),
                    views=record.facts.get("views"),
                    created=record.created,
                )

    def _architecture(self, record: Record) -> str:
        model = Artifact(self._store, record).remembered_input(names.MODEL)
        # A training's record has no settings of the model: they are those of the model that it started from.
        while model and (start := model.remembered_input("start")):
            model = start
        settings = model.record.config.get("model") if model else None
        return "" if settings is None else str(settings.get("architecture", Model().architecture))

    def _roles(self) -> dict[str, list[str]]:
        """Roles by the key of their index, in the order in which they are listed."""
        roles: dict[str, list[str]] = {}
        now = current(self._store)
        if now is None:
            return roles
        refused = challenger_of(self._store, now)
        for number in champion_numbers(self._store)[: -LISTED - 1 : -1]:
            key = read_champion(self._store, number).index.key
            roles.setdefault(key, []).append(f"{names.CHAMPION} {number}")
        if refused:
            roles.setdefault(refused.key, []).append(names.CHALLENGER)
        return roles


def kind_of(record: Record) -> str:
    """Returns how an index was built and ranks, by the settings of its step, which are without defaults."""
    index, search = (record.config.get(section, {}) for section in ("index", "search"))
    # The reranker is a source of its step, not a setting.
    words = (index.get("kind"), search.get("mode"), "reranked" if record.sources.get("rerank") else None)
    return ", ".join(filter(None, words))


class SingleFlight:
    """Runs long work in a thread, once and to its end, for all requests of one event loop that wait for it."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "multiview-loading")
        self._under_way: dict[str, asyncio.Task[Any]] = {}

    async def result(self, name: str, work: Callable[[], T]) -> T:
        """Returns the result of `work`, which requests for the same name share and which runs to its end even if all of
        them give up. Raises TooManyWaiting, and what `work` raises."""
        if name not in self._under_way:
            if len(self._under_way) >= MOST_UNDER_WAY:
                raise TooManyWaiting
            self._under_way[name] = task = asyncio.create_task(self._run(name, work))
            # Its error is fetched here, or asyncio would log it if nobody waits any more.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(self._under_way[name])

    async def _run(self, name: str, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            del self._under_way[name]
