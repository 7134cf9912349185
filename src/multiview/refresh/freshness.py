"""How old the champion's corpus is, how the last refreshes ended and what the gate refused, by the states of runs."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from multiview import names
from multiview.artifacts.champions import Champion
from multiview.artifacts.record import Reference, load_reference, read_record
from multiview.artifacts.store import Store
from multiview.config.overrides import validate
from multiview.steps.runs import StepState, find_run, read_state, read_states

TITLES = {"promote": "promoted", "refuse": "refused", "keep": "kept"}
"""Outcome for a challenger in one word, by the gate's decision."""
LOOKED_AT = 100


@dataclass(frozen=True)
class Freshness:
    """How fresh a champion's corpus is; times are in seconds since 1970."""

    read: float
    """When the sources were last read, no matter whether the corpus was made then or found to exist already."""
    ended: dict[str, float]
    """When a refresh ended last, by outcome: promoted, refused, failed, or kept (there was nothing to change)."""
    oldest: float | None = None
    """`refresh.oldest` of the newest refresh, in hours."""

    @property
    def age(self) -> float:
        """Seconds since the sources were read."""
        return max(0.0, time.time() - self.read)

    @property
    def notice(self) -> str:
        """A line that says that the corpus is too old; empty if it is not."""
        if self.oldest is None or self.age <= self.oldest * 3600:
            return ""
        return f"the corpus is older than refresh.oldest={self.oldest:g} hours: {self}"

    def __str__(self) -> str:
        refreshes = {f"refresh {outcome}": when for outcome, when in self.ended.items()}
        told = [("corpus read", self.read), *sorted(refreshes.items(), key=lambda each: -each[1])]
        return "; ".join(f"{what} {datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC" for what, at in told)


def freshness(store: Store, champion: Champion) -> Freshness:
    """Returns the freshness of a champion's corpus. Raises InputError where its record is gone or a state is damaged."""
    corpus = load_reference(champion.passages, f"champion {champion.number}", store).record
    read, newest, ended, settings = datetime.fromisoformat(corpus.created).timestamp(), 0.0, {}, {}
    for refresh in _last_refreshes(store):
        split = refresh.split
        if (began := split.started if split else refresh.ended) > newest:
            newest, settings = began, refresh.settings
        if split and split.outputs[names.PASSAGES].digest == corpus.digest:
            read = max(read, split.started)
        if refresh.outcome:
            ended[refresh.outcome] = max(refresh.ended, ended.get(refresh.outcome, 0.0))
    return Freshness(read, ended, validate({"refresh": settings}).refresh.oldest)


def challenger_of(store: Store, champion: Champion) -> Reference | None:
    """Returns the index that a gate last refused in favour of `champion`; None if none of the last refreshes was."""
    refused = [each for each in _last_refreshes(store) if each.refused and each.champion == champion.number]
    return max(refused, key=lambda refresh: refresh.ended).refused if refused else None


class _Refresh(NamedTuple):
    """What a refresh did."""

    settings: dict[str, Any] | None
    """The section `refresh` of its run; None for another pipeline, such as a component `refresh-index` alone."""
    split: StepState | None
    """The state of its `split`, if that has finished."""
    outcome: str = ""
    ended: float = 0.0
    champion: int | None = None
    """Number of the champion that the gate compared with."""
    refused: Reference | None = None
    """The challenger, if the gate refused it."""


def _last_refreshes(store: Store) -> list[_Refresh]:
    """Returns the last `LOOKED_AT` refreshes, by when a state of theirs was last written."""
    written: dict[str, tuple[float, int]] = {}
    for entry in store.entries(names.RUNS):
        _, name, *rest = entry.path.split("/")
        if name.startswith("refresh-") and rest[:1] == ["steps"]:
            last, size = written.get(name, (0.0, 0))
            written[name] = max(last, entry.modified), size + entry.bytes
    last = sorted(written, key=written.__getitem__)[-LOOKED_AT:]
    return [
        each for each in (_read(store, name, written[name]) for name in last) if each.settings is not None
    ]


@lru_cache(10 * LOOKED_AT)
def _read(store: Store, name: str, written: tuple[float, int]) -> _Refresh:
    """Reads what a run did; cached until a state of it is `written` again."""
    run, split, promote = (
        find_run(store, name),
        read_state(store, name, "split"),
        read_state(store, name, "promote"),
    )
    settings = run.config.get("refresh", {}) if run and run.pipeline == "refresh" else None
    split = split if split and split.finished else None
    if promote and promote.finished:
        record = read_record(store, names.PROMOTION, promote.key)
        if not record:
            return _Refresh(settings, split, ended=promote.ended or 0.0)
        decision, champion = record.facts["decision"], record.facts["champion"]
        refused = promote.inputs[names.INDEX][0] if decision == "refuse" else None
        return _Refresh(settings, split, TITLES[decision], promote.ended or 0.0, champion, refused)
    failed = [state.ended or 0.0 for state in read_states(store, name) if state.failed]
    return _Refresh(settings, split, "failed" if failed else "", max(failed, default=0.0))
