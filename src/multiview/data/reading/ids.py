"""Refusal of ids with a NUL character: trec_eval, which computes the metrics, is written in C and ends an id there."""

from __future__ import annotations

from collections.abc import Iterable

from multiview.errors import InputError

NUL = "\0"


def check_ids(ids: Iterable[str], location: str) -> None:
    """Raises InputError for an id that trec_eval would cut; `location` begins the line and names the ids."""
    for id_ in ids:
        if NUL in id_:
            raise cut_id(id_, location)


def cut_id(id_: str, location: str) -> InputError:
    return InputError(
        f"{location} {id_!r:.80} holds a NUL character, at which trec_eval would end it; write the id without"
    )
