"""Refusal of keys that are given twice in an object of JSON, of which the parsers keep the last value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from multiview.config import JsonObject


class GivenTwice(Exception):
    """A key is given twice in an object of JSON.

    >>> str(GivenTwice("b", {"a": 1, "b": 2}))
    "'b' is given twice"
    """

    def __init__(self, key: str, before: JsonObject) -> None:
        """`before` is the object as far as the second one."""
        super().__init__(f"{key!r} is given twice")
        self.before = before


def once(pairs: list[tuple[str, Any]]) -> JsonObject:
    """Returns an object, as `object_pairs_hook` of Python's parser. Raises GivenTwice."""
    row = dict(pairs)
    if len(row) < len(pairs):
        before: JsonObject = {}
        for key, value in pairs:
            if key in before:
                raise GivenTwice(key, before)
            before[key] = value
    return row


def noting(found: list[GivenTwice]) -> type[JsonObject]:
    """Returns the type of an object for `map_type` of ijson, which adds to `found`: no error gets through ijson's parser in C."""

    class Noting(dict[str, Any]):
        def __setitem__(self, key: str, value: object) -> None:
            if key in self:
                found.append(GivenTwice(key, dict(self)))
            super().__setitem__(key, value)

    return Noting


def first_twice(keys: Iterable[str]) -> str | None:
    """Returns the first of some keys that came before; None if each comes once."""
    seen: set[str] = set()
    return next((key for key in keys if key in seen or seen.add(key)), None)
