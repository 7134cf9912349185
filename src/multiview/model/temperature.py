"""Schedule of the loss's temperature over a training run (MVR Eq. 8)."""

import math

from multiview.config import Temperature

PAPER_EPOCHS = 40
"""Epochs of the papers' schedule, which the clock `progress` always covers, for a run of any length."""


def temperature(settings: Temperature, step: int, steps_per_epoch: int, total_steps: int) -> float:
    """Returns τ at `step` (from 0): fixed, or max(floor, exp(-alpha t)).

    By the clock `epoch`, t is the number of the epoch, from 0 (MVR). By the clock `progress`, t = 40 · step / all steps.
    """
    if settings.schedule == "fixed":
        return settings.value
    t = step // steps_per_epoch if settings.clock == "epoch" else PAPER_EPOCHS * step / total_steps
    return max(settings.floor, math.exp(-settings.alpha * t))
