"""Check that torch sees the GPUs that the pod requested."""

from __future__ import annotations

import os
import warnings

from multiview import environment
from multiview.errors import InputError

WAY_OUT = (
    "the node's driver is likely too old for this torch (CUDA 13 needs 580 or newer), or the node's device plugin "
    "did not hand its GPUs to the pod"
)


def check_gpus() -> None:
    """Raises InputError if torch sees fewer GPUs than the pod requested: the step would silently run on the CPU.

    Does nothing if the environment names no number of GPUs.
    """
    requested = int(os.environ.get(environment.GPUS) or 0)
    if not requested:
        return
    import torch

    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always")
        # Only this asks CUDA, which an old driver refuses; the count alone asks the driver.
        seen = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if seen < requested:
        words = next((f" (torch: {str(w.message).partition('. ')[0]})" for w in caught_warnings), "")
        built = torch.version.cuda or torch.version.hip
        code = f"built for CUDA {built}" if built else "built without CUDA"
        raise InputError(
            f"this pod asked for {requested} GPU{'s' if requested > 1 else ''}, and torch, {code}, sees {seen}"
            f"{words}: {WAY_OUT}"
        )
