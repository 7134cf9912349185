"""Our columns and the user's names for them: aliases, mappings, and paths into objects."""

import contextlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from multiview.errors import InputError

PASSAGE_COLUMNS = {
    "id": ("_id", "pid", "passage_id", "psg_id", "docid", "doc_id", "docno"),
    "title": (),
    "text": ("passage", "passage_text", "contents", "content", "body"),
}
"""Our column names, each with the other names that it has in other projects' files."""
QUESTION_COLUMNS = {
    "qid": ("_id",),
    "question": ("text",),
    "answers": (),
    "answer_starts": (),
    "positive_ids": (),
    "relevance": (),
    "negative_ids": (),
}


def checked_columns(
    setting: str, columns: Mapping[str, str] | None, known: Collection[str]
) -> Mapping[str, str]:
    """Returns the mapping itself. Raises InputError for a key that is not a known column name."""
    if unknown := set(columns or {}) - set(known):
        raise InputError(f"{setting}: no column {min(unknown)!r} is known here; there are {', '.join(known)}")
    return columns or {}


def match_columns(
    columns: Mapping[str, str], aliases: Mapping[str, Sequence[str]], present: Collection[str]
) -> dict[str, str]:
    """Maps our column names to those present: the name given in `columns` or, without one, our own name or an alias."""
    matched: dict[str, str] = {}
    for name, others in aliases.items():
        candidates = (columns[name],) if name in columns else (name, *others)
        if column := next((column for column in candidates if column in present), None):
            matched[name] = column
    return matched


def require(
    required: Iterable[str],
    matched: Mapping[str, str],
    columns: Mapping[str, str],
    present: Collection[str],
    location: str,
    setting: str,
) -> None:
    """Raises InputError for a required column of ours that is not `matched`; `present` are the file's columns."""
    is_data = not matched and any(" " in name.strip() or name.isdecimal() for name in present)
    hint = separator_hint(present) or ("; or has it no header? Then add one" if is_data else "")
    for name in required:
        if name not in matched:
            raise InputError(
                f"{location}: no column {columns.get(name, name)!r} among {', '.join(present) or 'none'}; "
                f"name the right one, as in {setting}={{{name}: yours}} (or yours.inner, of an object){hint}"
            )


def separator_hint(present: Collection[str]) -> str:
    """Returns a hint, to end an error line, if a table's only column name contains another separator; else empty."""
    only = next(iter(present)) if len(present) == 1 else ""
    found = next((f"{mark!r}" for mark in "\t;,|\x01" if mark in only), "")
    return f"; or are its columns separated by {found}? A .csv has commas, a .tsv tabs" if found else ""


def add_nested(row: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Adds to a row the values that paths name, such as `_source.text`, unless a column has that name; returns the row.

    Objects may be JSON in a string. A path into a list of objects takes the value from each.

    >>> add_nested({"a": {"b": 1}}, ["a.b", "a.c"])
    {'a': {'b': 1}, 'a.b': 1}
    """
    for name in names:
        root, _, path = name.partition(".")
        if path and name not in row and root in row:
            with contextlib.suppress(KeyError):
                row[name] = _value_at(row[root], path)
    return row


def _value_at(value: Any, path: str) -> Any:
    """Returns the value at a path within objects. Raises KeyError where there is none."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(value)
    if isinstance(value, list):
        inner: list[Any] = []
        for each in value:
            with contextlib.suppress(KeyError):
                inner.append(_value_at(each, path))
        if value and not inner:
            raise KeyError(path)
        return [item for each in inner for item in (each if isinstance(each, list) else [each])]
    if not isinstance(value, dict):
        raise KeyError(path)
    name, _, rest = path.partition(".")
    return _value_at(value[name], rest) if rest and path not in value else value[path]
