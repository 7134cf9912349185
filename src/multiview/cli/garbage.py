"""`multiview gc`: lists artifacts that nothing refers to, and deletes them with `--delete`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from multiview.artifacts.store import Store
from multiview.lineage import garbage
from multiview.lineage.garbage import ArtifactId, Garbage, ReportKept
from multiview.terminal import safe


def collect(
    store: Store, referenced: Callable[[ReportKept], set[ArtifactId]], days: float, delete: bool
) -> None:
    """Prints one line per piece that can go from a store, and their sum; with `delete`, deletes each piece that
    `referenced` still does not return then. Damaged files come last, each with what is kept because of it."""
    kept: dict[str, None] = {}
    found = garbage.collectable(store, referenced(kept.setdefault), days, kept.setdefault)
    pieces = []
    for piece in garbage.remove_all(store, found, lambda: referenced(kept.setdefault)) if delete else found:
        pieces.append(piece)
        print(f"{piece.bytes / 1e6:12,.3f} MB  {piece.kind:<11} {safe(piece.path)}")
    if not pieces:
        print("nothing to collect")
    elif delete:
        print(f"removed {summary(pieces)}")
    else:
        print(f"would remove {summary(pieces)}: --delete does it")
    for line in kept:
        print(f"kept: {safe(line)}")


def summary(pieces: Iterable[Garbage]) -> str:
    """Returns the number and the size of each kind: `2 index (1.3 MB), 1 attempt (0.2 MB)`."""
    number: Counter[str] = Counter()
    size: Counter[str] = Counter()
    for piece in pieces:
        number[piece.kind] += 1
        size[piece.kind] += piece.bytes
    parts = [f"{count} {kind} ({size[kind] / 1e6:,.1f} MB)" for kind, count in sorted(number.items())]
    return ", ".join(parts)
