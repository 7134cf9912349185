"""The store's challenger: the index that a refresh made last, and that the gate refused."""

from __future__ import annotations

from multiview import names
from multiview.artifacts.champions import Champion
from multiview.artifacts.record import Reference, read_record
from multiview.artifacts.store import Store
from multiview.steps.runs import read_state


def challenger_of(store: Store, champion: Champion) -> Reference | None:
    """Returns the index that was refused last against `champion`; None where none was."""
    found: list[tuple[float, Reference]] = []
    for run in store.folders(names.RUNS):
        state = read_state(store, run, "promote")
        record = read_record(store, names.PROMOTION, state.key) if state and state.ended else None
        if (
            state
            and record
            and (record.facts["decision"], record.facts["champion"]) == ("refuse", champion.number)
        ):
            found.append((state.ended or 0.0, state.inputs[names.INDEX][0]))
    return max(found, key=lambda refusal: refusal[0], default=(0.0, None))[1]
