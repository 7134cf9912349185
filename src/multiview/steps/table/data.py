"""Steps that read the data."""

from __future__ import annotations

from dataclasses import replace

from multiview import names
from multiview.steps.step import Step

_SPLIT = Step(
    name="split",
    version=6,
    function_path="multiview.data.split:split",
    settings=("corpus", "questions"),
    inputs=(),
    outputs=(names.PASSAGES, names.TRAIN_QUESTIONS, names.DEV_QUESTIONS),
    fingerprint_path="multiview.data.split:sources_fingerprint",
)

STEPS = (
    _SPLIT,
    replace(
        _SPLIT,
        name="split-again",
        inputs=("known",),
        unkeyed_inputs=("known",),
        supersedes="known",
        outputs=(*_SPLIT.outputs, names.LOST_QUESTIONS),
    ),
)
