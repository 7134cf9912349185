"""Decides whether a challenger becomes the champion: a pure function of a policy and of measurements."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from multiview.config import Gate
from multiview.data.questions import LostQuestions
from multiview.errors import counted
from multiview.evaluation.significance import CONFIDENCE, bootstrap_intervals

Decision = Literal["promote", "refuse", "keep"]

SIZES = re.compile(r"large_|(?<=\w)_view\b|\bu(?=int)|(?<=int)\d+|(?<=timestamp\[)[mnu]?s")
"""The parts of a column's type that say how its values are stored, not what they are."""
NOT_MEASURED = (
    "was not measured: accuracy needs dev questions with answers, the other metrics gold passages; see also "
    "evaluation.at and evaluation.depth"
)
NEARLY = 1e-9
"""Tolerance for the rounding of sums of floats."""


@dataclass(frozen=True)
class Measurements:
    """The measurements of an index that answers the dev questions."""

    digests: tuple[str, ...]
    """Digests of the index, its model and its corpus, and the length of its questions: if all are equal, so are the
    answers, in every column."""
    passages: int
    bytes: int
    seconds_per_question: float
    values: Mapping[str, np.ndarray]
    """Metric to its value per question [q], nan where the metric does not judge the question."""
    ranks: np.ndarray
    """Rank of the first right passage per question [q] float64; inf where none was found."""
    columns: Mapping[str, str] | None = None
    """The user's further columns of the passages, with their types; None if an older version wrote the passages."""
    ranking: str = "dense"
    """How the index ranks, such as `hybrid, reranked`."""
    known: int | None = None
    """The challenger's passages whose ids the champion has; None if no record tells."""


@dataclass(frozen=True)
class Check:
    """One requirement of the policy, and whether it was met."""

    name: str
    passed: bool
    says: str
    """The measured value and the allowed one, in one line."""


@dataclass(frozen=True)
class Difference:
    """A metric of champion and challenger. `difference` is challenger minus champion, `low` to `high` its interval."""

    champion: float | None
    challenger: float
    difference: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Verdict:
    """The decision, with the checks and metrics that led to it."""

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
    champion: Measurements | None,
    challenger: Measurements,
    qids: list[str],
    lost: LostQuestions,
    resamples: int,
    seed: int,
) -> Verdict:
    """Returns the verdict on a challenger by a policy, compared with the champion where there is one.

    Both answered the same questions `qids` [q], from which the `lost` ones are left out. A metric's drop is the
    champion's value minus the challenger's, averaged over the questions. The upper end of the 95 % interval of this
    mean (percentile bootstrap over questions) must not exceed the allowed drop. A single question has no interval; then
    the drop itself must not exceed it. A metric that the policy names and nobody measured is a refusal.
    """
    if champion is not None and champion.digests == challenger.digests:
        return Verdict("keep", "the index is the champion's own: nothing has changed")
    metrics = differences(champion, challenger, resamples, seed)
    checks = [
        *_sizes(policy, champion, challenger),
        _lost(policy, lost),
        *_drops(policy, champion, metrics),
        *_least(policy, metrics),
        *_found(policy, challenger, qids),
    ]
    if reasons := "; ".join(f"{check.name}: {check.says}" for check in checks if not check.passed):
        return Verdict("refuse", reasons, checks, metrics)
    against = "there was no champion" if champion is None else f"all {len(checks)} checks passed"
    return Verdict("promote", against, checks, metrics)


def differences(
    champion: Measurements | None, challenger: Measurements, resamples: int, seed: int
) -> dict[str, Difference]:
    """Returns the challenger's mean of each metric, and its change from the champion over the questions that both have."""
    compared: dict[str, Difference] = {}
    paired: dict[str, np.ndarray] = {}
    for name, challenger_values in challenger.values.items():
        champion_values = champion.values.get(name) if champion is not None else None
        if np.isnan(challenger_values).all():
            continue
        compared[name] = Difference(None, float(np.nanmean(challenger_values)))
        if champion_values is None:
            continue
        change = challenger_values - champion_values
        if not np.isnan(change).all():
            paired[name] = change
    intervals = bootstrap_intervals(paired, resamples, seed)
    for name, change in paired.items():
        mean, (low, high) = float(np.nanmean(change)), intervals[name]
        value = compared[name].challenger
        compared[name] = Difference(value - mean, value, mean, low, high)
    return compared


def _sizes(policy: Gate, champion: Measurements | None, challenger: Measurements) -> Iterator[Check]:
    passages, smallest = challenger.passages, policy.smallest_corpus
    yield Check(
        "smallest_corpus",
        passages >= smallest,
        f"{counted(passages, 'passage')}, at least {smallest:,} asked for",
    )
    if champion is not None:
        lost, before = 1 - passages / champion.passages, counted(champion.passages, "passage")
        says = f"{before} became {passages:,} ({0 - lost:+.1%}), down to {0 - policy.largest_shrinkage:.1%} is allowed"
        if challenger.known == 0:
            lost = 1.0
            says = (
                f"none of {before} is left by its id: is this another corpus, which needs a store of its own? If not, "
                "set gate.largest_shrinkage=1"
            )
        yield Check("largest_shrinkage", lost <= policy.largest_shrinkage + NEARLY, says)
    if champion is not None and (changed := _changed(champion.columns or {}, challenger.columns)):
        yield Check("keep_columns", not policy.keep_columns, "; ".join(changed))
    if champion is not None and champion.ranking != challenger.ranking:
        yield Check("ranking", True, f"{challenger.ranking}, was {champion.ranking}")
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


def _changed(before: Mapping[str, str], after: Mapping[str, str] | None) -> list[str]:
    """Returns a line for each column that is gone or holds another kind of value: clients' conditions on it fail."""
    if after is None:
        return []
    return [
        f"{name} is {after[name]}, was {kind}" if name in after else f"{name} ({kind}) is gone"
        for name, kind in sorted(before.items())
        if SIZES.sub("", after.get(name, "")) != SIZES.sub("", kind)
    ]


def _lost(policy: Gate, lost: LostQuestions) -> Check:
    says = (
        f"{len(lost.lost):,} of {counted(lost.questions, 'question')} ({lost.share:.1%}) have lost their gold passage or "
        f"the answer in it, up to {policy.max_lost_questions:.1%} is allowed"
    )
    if lost.share <= policy.max_lost_questions + NEARLY:
        return Check("max_lost_questions", True, says)
    way_out = f"mend them (first: question {lost.lost[0]}), or allow more with gate.max_lost_questions"
    return Check("max_lost_questions", False, f"{says}; {way_out}")


def _drops(policy: Gate, champion: Measurements | None, metrics: Mapping[str, Difference]) -> Iterator[Check]:
    if champion is None:
        return
    usual = Gate().drops
    drops = {name: allowed for name, allowed in policy.drops.items() if allowed is not None}
    compared = any(name in metrics and metrics[name].difference is not None for name in drops)
    for name, allowed in drops.items():
        metric = metrics.get(name)
        if metric is None or metric.difference is None:
            # The defaults serve questions with answers, with gold passages or with both; what is set must be measured.
            if not compared or allowed != usual.get(name):
                yield Check(f"drops.{name}", False, NOT_MEASURED)
            continue
        lowest = metric.difference if metric.low is None else metric.low
        interval = (
            "" if metric.low is None else f" ({CONFIDENCE:.0%}: {metric.low:+.3f} to {metric.high:+.3f})"
        )
        unsure = lowest < -allowed - NEARLY <= metric.difference
        yield Check(
            f"drops.{name}",
            lowest >= -allowed - NEARLY,
            f"{metric.champion:.3f} became {metric.challenger:.3f}, {metric.difference:+.3f}{interval}; "
            f"down to {0 - allowed:+.3f} is allowed{', which so few questions cannot show' if unsure else ''}",
        )


def _least(policy: Gate, metrics: Mapping[str, Difference]) -> Iterator[Check]:
    for name, least in policy.least.items():
        metric = metrics.get(name)
        if metric is None:
            yield Check(f"least.{name}", False, NOT_MEASURED)
        else:
            yield Check(
                f"least.{name}",
                metric.challenger >= least - NEARLY,
                f"{metric.challenger:.3f}, at least {least:.3f} asked for",
            )


def _found(policy: Gate, challenger: Measurements, qids: list[str]) -> Iterator[Check]:
    rows = {qid: row for row, qid in enumerate(qids)}
    for qid, rank in policy.must_find.items():
        if qid not in rows:
            yield Check(
                f"must_find.{qid}",
                False,
                "is no dev question: its gold passage may be gone from the corpus, or see questions.dev_limit",
            )
            continue
        reached = challenger.ranks[rows[qid]]
        result = "not among the passages retrieved" if np.isinf(reached) else f"at rank {reached:.0f}"
        yield Check(
            f"must_find.{qid}", bool(reached <= rank), f"right passage {result}, rank {rank} asked for"
        )
