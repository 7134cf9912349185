"""How old the champion's corpus is and how the last refreshes ended, according to the states of the store's runs."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from multiview import names
from multiview.artifacts.champions import Champion
from multiview.artifacts.record import load_reference, read_record
from multiview.artifacts.store import Store
from multiview.config.overrides import validate
from multiview.steps.runs import Run, StepState, find_run, read_state, read_states

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
    written: dict[str, tuple[float, int]] = {}
    for entry in store.entries(names.RUNS):
        _, name, *rest = entry.path.split("/")
        if name.startswith("refresh-") and rest[:1] == ["steps"]:
            last, size = written.get(name, (0.0, 0))
            written[name] = max(last, entry.modified), size + entry.bytes
    for name in sorted(written, key=written.__getitem__)[-LOOKED_AT:]:
        run, split, outcomes = _told(store, name, written[name])
        if run is None or run.pipeline != "refresh":  # such as a component `refresh-index` alone
            continue
        began = split.started if split else max(outcomes.values(), default=0.0)
        if began > newest and not run.rerun_of:
            newest, settings = began, run.config.get("refresh", {})
        if split and split.outputs[names.PASSAGES].digest == corpus.digest:
            read = max(read, split.started)
        for outcome, when in outcomes.items():
            ended[outcome] = max(when, ended.get(outcome, 0.0))
    return Freshness(read, ended, validate({"refresh": settings}).refresh.oldest)


@lru_cache(10 * LOOKED_AT)
def _told(
    store: Store, name: str, written: tuple[float, int]
) -> tuple[Run | None, StepState | None, dict[str, float]]:
    """Returns a run, its finished `split`, and when it ended, by outcome: its challenger's, and `failed` if a step did,
    perhaps when it was started again; cached until a state is `written` again."""
    run, split = find_run(store, name), read_state(store, name, "split")
    split, promote = split if split and split.finished else None, read_state(store, name, "promote")
    outcomes = {
        "failed": max((state.ended or 0.0 for state in read_states(store, name) if state.failed), default=0.0)
    }
    if promote and promote.finished and (record := read_record(store, names.PROMOTION, promote.key)):
        decision, when = record.facts["decision"], promote.ended or 0.0
        if promote.status == "found" and run and run.rerun_of:  # perhaps long after
            when = datetime.fromisoformat(record.created).timestamp()
        outcomes[TITLES[decision]] = when
    return run, split, {outcome: when for outcome, when in outcomes.items() if when}
