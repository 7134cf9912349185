"""The temperature of the loss over a training run (MVR Eq. 8)."""

import math

from multiview.config import Temperature

PAPER_EPOCHS = 40
"""Epochs of the papers' schedule, which the progress clock runs through whatever the run's length."""


def temperature(settings: Temperature, step: int, steps_per_epoch: int, total_steps: int) -> float:
    """τ at `step` (from 0): fixed, or max(floor, exp(-alpha t)).

    t is the epoch, from 0 and constant within it (MVR); by the clock `progress` it is 40 · step / all steps.
    """
    if settings.schedule == "fixed":
        return settings.value
    t = step // steps_per_epoch if settings.clock == "epoch" else PAPER_EPOCHS * step / total_steps
    return max(settings.floor, math.exp(-settings.alpha * t))
