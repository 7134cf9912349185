"""Champions, the indexes that answer queries: files that are created exclusively and never changed.

`champions/000017.json` names an index with its model and passages, and its predecessor. The file with the highest
number describes the current champion. A successor must create the next file, which only one process can. A rollback
writes the next file with an earlier champion's index.
"""

from datetime import UTC, datetime
from typing import Literal

from pydantic import BaseModel

from multiview import names
from multiview.artifacts.record import Artifact, Reference, load_reference
from multiview.artifacts.store import Store
from multiview.config import Config, canonical_json, text_sha256
from multiview.errors import InputError

MEND_FILE = "restore it from a copy, or remove it if none of its successors is there"


class Champion(BaseModel, frozen=True):
    """An index that answers queries, or did so earlier."""

    number: int
    predecessor: int | None
    """The number of the champion that it followed; None for the first champion."""
    why: Literal["first", "refresh", "rollback"]
    index: Reference
    model: Reference
    passages: Reference
    verdict: Reference | None = None
    """The verdict of the gate that let it pass; None after a rollback: the restored champion's file has it."""
    restores: int | None = None
    """After a rollback: the number of the champion whose index this is."""
    created: str = ""

    def references(self) -> dict[str, Reference]:
        """The champion's artifacts by kind."""
        return {names.INDEX: self.index, names.MODEL: self.model, names.PASSAGES: self.passages}

    def load(self, store: Store) -> dict[str, Artifact]:
        """Returns the records of its artifacts by kind. Raises InputError with the way out if one is gone."""
        try:
            return {
                kind: load_reference(reference, f"champion {self.number}", store)
                for kind, reference in self.references().items()
            }
        except InputError as error:
            way_out = (
                "until then, go back to another champion with `python -m pipelines rollback --to NUMBER`"
            )
            if champion_numbers(store) == [self.number]:
                way_out = f"if none does, remove {store.url}/{champion_file(self.number)} and refresh"
            raise InputError(f"{error}; {way_out}") from error


def champion_file(number: int) -> str:
    """Returns the path of a champion's file in its store."""
    return f"{names.CHAMPIONS}/{number:06d}.json"


def champion_numbers(store: Store) -> list[int]:
    """Returns the numbers of all champions of a store, in ascending order."""
    stems = (path.rpartition("/")[2].removesuffix(".json") for path in store.files(names.CHAMPIONS))
    return sorted(int(stem) for stem in stems if stem.isdigit())


def read_champion(store: Store, number: int) -> Champion:
    """Returns a champion. Raises InputError if there is no champion of this number, or its file is damaged."""
    file, data = f"{store.url}/{champion_file(number)}", store.read(champion_file(number))
    if data is None:
        known = ", ".join(map(str, champion_numbers(store))) or "none"
        raise InputError(f"store {store.url} has no champion {number}; it has: {known}")
    try:
        champion = Champion.model_validate_json(data)
    except ValueError as error:
        raise InputError(f"{file} is damaged: {MEND_FILE}") from error
    if champion.number != number:
        raise InputError(f"{file} says that it is champion {champion.number}: {MEND_FILE}")
    return champion


def current(store: Store) -> Champion | None:
    """Returns the current champion of a store; None if there is none yet."""
    known = champion_numbers(store)
    return read_champion(store, known[-1]) if known else None


def champion_of(store: Store) -> Champion:
    """Returns the champion of a store. Raises InputError if it has none, or there is no store."""
    champion = current(store)
    if champion is None:
        store.check_exists()
        raise InputError(f"store {store.url} has no champion: run the pipeline refresh first")
    return champion


def address_of(store: Store, champion: Champion) -> str:
    """Returns the address of a champion's index, preferably in `store`. Raises InputError if the index is gone."""
    return champion.load(store)[names.INDEX].address


def crown(store: Store, champion: Champion) -> Champion:
    """Creates a champion's file; a repeated call changes nothing. Raises InputError if another has taken the number."""
    dated = champion.model_copy(update={"created": datetime.now(UTC).isoformat(timespec="seconds")})
    if store.create(champion_file(champion.number), dated.model_dump_json(indent=1).encode() + b"\n"):
        return dated
    existing = read_champion(store, champion.number)
    if existing.model_copy(update={"created": champion.created}) == champion:
        return existing
    raise InputError(
        f"champion {champion.number} was promoted meanwhile, by another refresh or a rollback: this one changed nothing; "
        "run it again, so that it is measured against that one"
    )


def store_fingerprint(settings: Config, store: Store | None) -> dict[str, object]:
    """Returns the current champion's number and digest: if its file is removed by hand, the number is used again."""
    if store is None:
        return {}
    champion = current(store)
    if champion is None:
        return {"champion": None}
    content = canonical_json(champion.model_dump(mode="json"))
    return {"champion": champion.number, "sha256": text_sha256(content)}


def rollback(store: Store, to: int | None = None) -> Champion:
    """Creates and returns the next champion, with the index of champion `to` or of the current one's predecessor; two
    rollbacks go back twice. Raises InputError if there is none to go back to, or its artifacts are gone: an index that
    only the store has that this one was copied from is no longer kept there."""
    now = champion_of(store)
    target = read_champion(store, _before(store, now) if to is None else to)
    if target.index == now.index:
        raise InputError(f"champion {now.number} already answers from the index of champion {target.number}")
    index = target.load(store)[names.INDEX]
    if index.store.url != store.url:
        raise InputError(
            f"champion {target.number}: its index is in {index.store.url} alone; copy {index.address} here first"
        )
    place = {"number": now.number + 1, "predecessor": now.number}
    restored = {"why": "rollback", "restores": target.restores or target.number, "verdict": None}
    return crown(store, target.model_copy(update={**place, **restored, "created": ""}))


def _before(store: Store, now: Champion) -> int:
    """Returns the number of the champion that the index of `now` first replaced."""
    origin = read_champion(store, now.restores) if now.restores else now
    if origin.predecessor is None:
        raise InputError(f"champion {origin.number} is the first: there is none to go back to")
    before = read_champion(store, origin.predecessor)
    return before.restores or before.number
