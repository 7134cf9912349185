"""Artifacts of one file, and champions that name them."""

from __future__ import annotations

from multiview.artifacts.attempt import Attempt
from multiview.artifacts.champions import Champion
from multiview.artifacts.record import Reference
from multiview.artifacts.store import Store


def artifact(store: Store, kind: str, key: str) -> Reference:
    attempt = Attempt(store, kind, key)
    (attempt.path / "file").write_text(f"{kind} {key}")
    record, _ = attempt.publish(step="made", step_version=1, config={}, inputs={})
    return Reference(address=f"{store.url}/{record.folder}", digest=record.digest)


def champion(store: Store, number: int, key: str | None = None) -> Champion:
    index, model, passages = (
        artifact(store, kind, key or f"of-{number}") for kind in ("index", "model", "passages")
    )
    return Champion(
        number=number,
        predecessor=number - 1 or None,
        why="first" if number == 1 else "refresh",
        index=index,
        model=model,
        passages=passages,
    )
