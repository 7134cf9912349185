"""The GPUs that a pod was promised, against those that torch sees."""

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
    """Raises InputError where torch sees fewer GPUs than the pod was promised, because a step would go on on the CPU.

    Nothing happens where the environment promises none.
    """
    promised = int(os.environ.get(environment.GPUS) or 0)
    if not promised:
        return
    import torch

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        # Only this asks CUDA, which an old driver refuses; the count alone asks the driver.
        seen = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if seen < promised:
        words = next((f" (torch: {str(w.message).partition('. ')[0]})" for w in told), "")
        built = torch.version.cuda or torch.version.hip
        code = f"built for CUDA {built}" if built else "built without CUDA"
        raise InputError(
            f"this pod asked for {promised} GPU{'s' if promised > 1 else ''}, and torch, {code}, sees {seen}"
            f"{words}: {WAY_OUT}"
        )
