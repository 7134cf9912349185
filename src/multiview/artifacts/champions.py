"""The champion: which index answers, by files that are created exclusively and never changed.

`champions/000017.json` names an index with its model and passages, and its predecessor. The file with the highest
number is the truth; whoever wants to follow it must create the next one, which only one can. To go back is to write
the next number with an earlier one's index.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from multiview import names
from multiview.artifacts.record import Record, Reference, load_reference
from multiview.artifacts.store import Store
from multiview.config import canonical_json
from multiview.errors import InputError

WHOLE = "restore it from a copy, or remove it if none of its successors is there"


class Champion(BaseModel):
    """An index that answers, or once did."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    number: int
    predecessor: int | None
    """The number of the champion that it was measured against; none: the first."""
    why: Literal["first", "refresh", "rollback"]
    index: Reference
    model: Reference
    passages: Reference
    verdict: Reference | None = None
    """Of the gate that let it pass; none after a rollback, whose champion has one of its own."""
    restores: int | None = None
    """After a rollback: the number of the champion whose index this is."""
    created: str = ""

    @property
    def file(self) -> str:
        return champion_file(self.number)

    def references(self) -> dict[str, Reference]:
        """Its artifacts by kind."""
        return {names.INDEX: self.index, names.MODEL: self.model, names.PASSAGES: self.passages}

    def load(self, store: Store) -> dict[str, tuple[Store, Record]]:
        """The records of its artifacts by kind. Raises InputError that says how to go on where one is gone."""
        try:
            return {
                kind: load_reference(reference, f"champion {self.number}", store)
                for kind, reference in self.references().items()
            }
        except InputError as error:
            raise InputError(
                f"{error}; until it is there again, go back to an earlier champion with `python -m pipelines "
                "rollback --to NUMBER`"
            ) from error


def champion_file(number: int) -> str:
    """The path of a champion's file in its store."""
    return f"{names.CHAMPIONS}/{number:06d}.json"


def numbers(store: Store) -> list[int]:
    """The numbers of all champions of a store, rising."""
    found = (path.rpartition("/")[2].removesuffix(".json") for path in store.files(names.CHAMPIONS))
    return sorted(int(name) for name in found if name.isdigit())


def read_champion(store: Store, number: int) -> Champion:
    """Raises InputError where there is none of this number, or its file is damaged."""
    data = store.read(champion_file(number))
    if data is None:
        known = ", ".join(map(str, numbers(store))) or "none"
        raise InputError(f"store {store.url} has no champion {number}; it has: {known}")
    try:
        champion = Champion.model_validate_json(data)
    except ValueError as error:
        raise InputError(f"{store.url}/{champion_file(number)} is damaged: {WHOLE}") from error
    if champion.number != number:
        raise InputError(
            f"{store.url}/{champion_file(number)} says that it is champion {champion.number}: {WHOLE}"
        )
    return champion


def current(store: Store) -> Champion | None:
    """The champion of a store; none where there is none yet."""
    found = numbers(store)
    return read_champion(store, found[-1]) if found else None


def address_of(store: Store, champion: Champion) -> str:
    """The address of a champion's index, in `store` where it is there. Raises InputError where it is gone."""
    where, record = champion.load(store)[names.INDEX]
    return f"{where.url}/{record.folder}"


def crown(store: Store, champion: Champion) -> Champion:
    """Make a champion by creating its file. Doing so again changes nothing.

    Raises InputError, and nothing has changed, where another has taken the number.
    """
    dated = champion.model_copy(update={"created": datetime.now(UTC).isoformat(timespec="seconds")})
    if store.create(champion.file, dated.model_dump_json(indent=1).encode() + b"\n"):
        return dated
    there = read_champion(store, champion.number)
    if there.model_copy(update={"created": champion.created}) == champion:
        return there
    raise InputError(
        f"champion {champion.number} was promoted meanwhile, by another refresh or a rollback: this one changed nothing; "
        "run it again, so that it is measured against that one"
    )


def store_fingerprint(store: Store) -> dict[str, Any]:
    """What the step `champion` reads beside its settings: which champion there is, for its key.

    By content too: a number comes again where somebody removed its file.
    """
    champion = current(store)
    if champion is None:
        return {"champion": None}
    content = canonical_json(champion.model_dump(mode="json"))
    return {"champion": champion.number, "sha256": hashlib.sha256(content.encode()).hexdigest()}


def rollback(store: Store, to: int | None = None) -> Champion:
    """The next champion, whose index is that of champion `to`; none: of the current one's predecessor.

    Of champions that were rolled back the index counts, so that two rollbacks go back twice. Raises InputError
    where there is nothing to go back to, or its artifacts are gone.
    """
    now = current(store)
    if now is None:
        raise InputError(f"store {store.url} has no champion: run the pipeline refresh first")
    target = read_champion(store, _before(store, now) if to is None else to)
    if target.index == now.index:
        raise InputError(f"champion {now.number} already answers from the index of champion {target.number}")
    target.load(store)
    return crown(
        store,
        Champion(
            number=now.number + 1,
            predecessor=now.number,
            why="rollback",
            restores=target.restores or target.number,
            index=target.index,
            model=target.model,
            passages=target.passages,
        ),
    )


def _before(store: Store, now: Champion) -> int:
    """The champion that stood before the one whose index `now` has."""
    told = read_champion(store, now.restores) if now.restores else now
    if told.predecessor is None:
        raise InputError(f"champion {told.number} is the first: there is none to go back to")
    before = read_champion(store, told.predecessor)
    return before.restores or before.number
