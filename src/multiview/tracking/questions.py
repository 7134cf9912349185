"""The MLflow tags of runs whose questions were generated from the corpus."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from multiview import names
from multiview.artifacts.record import Reference, load_record, split_address
from multiview.errors import InputError
from multiview.steps.runs import StepState

TAGS = {
    names.TRAIN_QUESTIONS: names.TAG_TRAIN_QUESTIONS,
    names.DEV_QUESTIONS: names.TAG_DEV_QUESTIONS,
}
"""The tag of each kind of questions."""


def question_tags(states: Iterable[StepState]) -> dict[str, str | None]:
    """Returns the tags of the generated questions that steps read, as in `generated: crop`; empty for labelled questions.

    Questions that a step makes and none reads, such as held-out ones beside labelled dev questions, do not count.
    """
    read = [reference for state in states for references in state.inputs.values() for reference in references]
    return tags_of(read)


def tags_of(references: Iterable[Reference]) -> dict[str, str | None]:
    """Returns the tags of those of the artifacts that are generated questions."""
    tags: dict[str, str | None] = {}
    for address in dict.fromkeys(reference.address for reference in references):
        tag = TAGS.get(split_address(address)[1])
        if tag and tag not in tags:
            with suppress(InputError):  # the questions are gone
                if origin := load_record(address)[1].facts.get(names.GENERATED):
                    tags[tag] = f"{names.GENERATED}: {origin}"
    return tags
