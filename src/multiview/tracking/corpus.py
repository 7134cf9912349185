"""The MLflow tag that names the corpus of a run and its steps."""

from __future__ import annotations

from collections.abc import Iterable

from multiview import names
from multiview.artifacts.record import split_address
from multiview.lineage.trace import corpus_name, corpus_of, trace
from multiview.steps.runs import StepState

DIGITS = 8
"""Digits of the passages' digest that are shown."""


def corpus_tag(states: Iterable[StepState]) -> str | None:
    """Returns the tag of the passages that steps are about: names of files and digest, `passages.parquet@4c1fb96f`.

    Where no step reads or makes passages, as in a comparison of finished evaluations, the passages are those that the
    steps' inputs were made from. None where the steps have neither inputs nor outputs, or no passages are found.
    """
    read = [reference for state in states for references in state.inputs.values() for reference in references]
    made = [reference for state in states for reference in state.outputs.values()]
    passages = [r for r in (*made, *read) if split_address(r.address)[1] == names.PASSAGES]
    if not passages and not read:
        return None
    corpus = corpus_of(trace(passages[:1] or read[:1]))
    if corpus is None:
        return f"@{passages[0].digest[:DIGITS]}" if passages else None
    return f"{corpus_name(corpus)}@{corpus.digest[:DIGITS]}"
