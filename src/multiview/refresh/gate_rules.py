"""Whether a challenger becomes the champion: a pure function of a policy and of what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from multiview.config import Gate
from multiview.evaluation.significance import CONFIDENCE, bootstrap_intervals

Decision = Literal["promote", "refuse", "keep"]

NEARLY = 1e-9
"""What sums of floats may be off."""


@dataclass(frozen=True)
class Measured:
    """What is known of an index that answers the dev questions."""

    digests: tuple[str, ...]
    """Of the index, its model and its corpus: what is equal in all of them answers the same, to the last column."""
    passages: int
    bytes: int
    seconds_per_question: float
    values: Mapping[str, np.ndarray]
    """Metric to its value for each question [q], nan where the metric does not judge one."""
    ranks: np.ndarray
    """Rank of the first passage that is right, for each question [q] float64; inf: none was found."""


@dataclass(frozen=True)
class Check:
    """One thing that the policy asks for."""

    name: str
    passed: bool
    says: str
    """What was measured and what was allowed, in one line."""


@dataclass(frozen=True)
class Difference:
    """A metric of both, and how far the challenger's lies above: `low` to `high` is the interval of that."""

    champion: float | None
    challenger: float
    difference: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Verdict:
    """The decision with all that led to it."""

    decision: Decision
    says: str
    """The decision in one line, with the first reason of a refusal."""
    checks: list[Check] = field(default_factory=list)
    metrics: dict[str, Difference] = field(default_factory=dict)

    @property
    def failed(self) -> list[Check]:
        return [check for check in self.checks if not check.passed]


def decide(
    policy: Gate,
    champion: Measured | None,
    challenger: Measured,
    qids: list[str],
    resamples: int,
    seed: int,
) -> Verdict:
    """Hold a challenger against a policy, and against the champion where there is one.

    Both were asked the same questions `qids` [q]. A metric's drop is the mean over the questions of the champion's
    value minus the challenger's; as far as the interval of that mean (percentile bootstrap over questions, 95 %)
    reaches, it counts. With one question, which has no interval, the drop itself counts. A metric that the policy
    names and that was not measured is a refusal: nothing passes unmeasured.
    """
    if champion is not None and champion.digests == challenger.digests:
        return Verdict("keep", "the index is the champion's own: nothing has changed")
    metrics = differences(champion, challenger, resamples, seed)
    checks = [
        *_sizes(policy, champion, challenger),
        *_drops(policy, champion, metrics),
        *_least(policy, metrics),
        *_found(policy, challenger, qids),
    ]
    failed = [check for check in checks if not check.passed]
    if failed:
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        return Verdict("refuse", f"{failed[0].name}: {failed[0].says}{more}", checks, metrics)
    against = "there was no champion" if champion is None else f"all {len(checks)} checks passed"
    return Verdict("promote", against, checks, metrics)


def differences(
    champion: Measured | None, challenger: Measured, resamples: int, seed: int
) -> dict[str, Difference]:
    """Every metric of the challenger that judges a question, beside the champion's over the same questions."""
    found: dict[str, Difference] = {}
    paired: dict[str, np.ndarray] = {}
    for name, challenger_values in challenger.values.items():
        champion_values = champion.values.get(name) if champion is not None else None
        if np.isnan(challenger_values).all():
            continue
        found[name] = Difference(None, float(np.nanmean(challenger_values)))
        if champion_values is None:
            continue
        apart = challenger_values - champion_values
        if not np.isnan(apart).all():
            paired[name] = apart
    intervals = bootstrap_intervals(paired, resamples, seed)
    for name, apart in paired.items():
        mean, (low, high) = float(np.nanmean(apart)), intervals[name]
        value = found[name].challenger
        found[name] = Difference(value - mean, value, mean, low, high)
    return found


def _sizes(policy: Gate, champion: Measured | None, challenger: Measured) -> Iterator[Check]:
    passages, smallest = challenger.passages, policy.smallest_corpus
    yield Check(
        "smallest_corpus", passages >= smallest, f"{passages:,} passages, at least {smallest:,} asked for"
    )
    if champion is not None and champion.passages:
        lost = 1 - passages / champion.passages
        yield Check(
            "largest_shrinkage",
            lost <= policy.largest_shrinkage + NEARLY,
            f"{champion.passages:,} passages became {passages:,} ({passages / champion.passages - 1:+.1%}), "
            f"down to {-policy.largest_shrinkage:.1%} is allowed",
        )
    if policy.seconds_per_question is not None:
        took = challenger.seconds_per_question
        yield Check(
            "seconds_per_question",
            took <= policy.seconds_per_question,
            f"a search takes {took:.4g} s, {policy.seconds_per_question:.4g} s are allowed",
        )
    if policy.index_bytes is not None:
        yield Check(
            "index_bytes",
            challenger.bytes <= policy.index_bytes,
            f"{challenger.bytes:,} bytes, {policy.index_bytes:,} are allowed",
        )


def _drops(policy: Gate, champion: Measured | None, metrics: Mapping[str, Difference]) -> Iterator[Check]:
    for name, allowed in policy.drops.items() if champion is not None and champion.passages else ():
        found = metrics.get(name)
        if found is None or found.difference is None:
            yield Check(
                f"drops.{name}", False, "was not measured of both; see evaluation.at and evaluation.depth"
            )
            continue
        lowest = found.difference if found.low is None else found.low
        interval = "" if found.low is None else f" ({CONFIDENCE:.0%}: {found.low:+.3f} to {found.high:+.3f})"
        unsure = lowest < -allowed - NEARLY <= found.difference
        yield Check(
            f"drops.{name}",
            lowest >= -allowed - NEARLY,
            f"{found.champion:.3f} became {found.challenger:.3f}, {found.difference:+.3f}{interval}; "
            f"down to {-allowed:+.3f} is allowed{', which so few questions cannot show' if unsure else ''}",
        )


def _least(policy: Gate, metrics: Mapping[str, Difference]) -> Iterator[Check]:
    for name, least in policy.least.items():
        found = metrics.get(name)
        if found is None:
            yield Check(f"least.{name}", False, "was not measured; see evaluation.at and evaluation.depth")
        else:
            yield Check(
                f"least.{name}",
                found.challenger >= least - NEARLY,
                f"{found.challenger:.3f}, at least {least:.3f} asked for",
            )


def _found(policy: Gate, challenger: Measured, qids: list[str]) -> Iterator[Check]:
    places = {qid: place for place, qid in enumerate(qids)}
    for qid, rank in policy.must_find.items():
        if qid not in places:
            yield Check(
                f"must_find.{qid}",
                False,
                "is no dev question: its gold passage may be gone from the corpus, or see questions.dev_limit",
            )
            continue
        came = challenger.ranks[places[qid]]
        where = "not among the passages retrieved" if np.isinf(came) else f"at rank {came:.0f}"
        yield Check(f"must_find.{qid}", bool(came <= rank), f"right passage {where}, rank {rank} asked for")
