"""What a stranger's files are, and the right values of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

TOWNS = [
    {"id": "t0", "title": "Orlen", "text": "Orlen lies on a lake. Mirja Toll founded it (1310)."},
    {"id": "t1", "title": "Bask", "text": "Bask has a wooden bridge. Ola Brandt built it in 1602."},
]
LINES = "".join(f"{json.dumps(town)}\n" for town in TOWNS)

Content = "str | bytes | Callable[[Path], object]"


@dataclass
class Case:
    """Files, and what `inspect` finds in them."""

    files: Mapping[str, Content]  # type: ignore[valid-type]
    """Path to content, or to a function that writes it."""
    refused: Sequence[str] = ()
    """Parts of the line that refuses them."""
    passages: Sequence[str] | int | None = None
    """Ids of the passages, or how many there are."""
    questions: Sequence[tuple[str, tuple[str, ...], tuple[str, ...]]] | None = None
    """Question, answers and gold passages' ids, or texts where ids are made of these, of training, then of dev questions."""
    remarks: Sequence[str] = ()
    """Parts of the remarks."""
    sources: Sequence[str] = (".",)
    settings: Sequence[str] = ()


def put(folder: Path, files: Mapping[str, Content]) -> None:  # type: ignore[valid-type]
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if callable(content):
            content(path)
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)


def lines(*rows: object) -> str:
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)


def table(**columns: object) -> Callable[[Path], object]:
    return lambda path: pq.write_table(pa.table(columns), path)


def linked(target: str) -> Callable[[Path], object]:
    return lambda path: path.symlink_to(target)


def parquet_of(rows: list[dict]) -> Callable[[Path], object]:
    return lambda path: pq.write_table(pa.Table.from_pylist(rows), path)


def towns(path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(TOWNS), path)
