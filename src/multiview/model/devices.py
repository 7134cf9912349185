"""The device that a model runs on, and what else works while it does."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from multiview.errors import InputError

MOST_WORKERS = 4
"""Most processes per GPU that tokenise ahead of the model."""
CPU_WORKERS = 0
"""The same where there is no GPU: the model needs all cores, and tokenising is a hundredth of its work."""

LARGEST_KEPT = 31 << 20
"""Size of the largest block, in bytes, whose memory `keep_freed_memory` keeps; glibc's limit is 32 MiB."""


def device(name: str, setting: str) -> torch.device:
    """Returns the device called `name`; `auto` is the GPU if there is one, otherwise the CPU.

    Raises InputError that names `setting` for a device that does not exist or cannot compute.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise InputError(f"{setting}: {name}, but torch sees no GPU here; use auto or cpu")
    try:
        found = torch.device(name)
    except RuntimeError:
        raise InputError(f"{setting}: there is no device {name!r}; use auto, cpu or cuda") from None
    try:
        torch.ones(1, device=found).item()
    except (RuntimeError, ImportError, AssertionError):
        # torch knows names of devices that it was not built for, and `meta` has shapes alone.
        raise InputError(f"{setting}: {name} cannot compute here; use auto, cpu or cuda") from None
    return found


def workers(device: torch.device) -> int:
    """Returns the number of processes that tokenise ahead: as this machine's cores allow per GPU."""
    if device.type == "cpu":
        return CPU_WORKERS
    cores = len(os.sched_getaffinity(0)) // max(1, torch.cuda.device_count())
    return max(0, min(MOST_WORKERS, cores - 1))


def keep_freed_memory() -> None:
    """Lets this process keep the memory of tensors that it frees, for those that follow, as much as it had at once.

    Given back to the system, as it is by default, each page is cleared again for the next tensor of a few megabytes: some
    5 % of encoding on a CPU. glibc keeps blocks that are smaller than the largest one that it gave back.
    """
    torch.empty(LARGEST_KEPT, dtype=torch.uint8)  # freed at once


@contextmanager
def within_gpu_memory(hint: str) -> Iterator[None]:
    """A context whose error, where a GPU's memory is full, is an InputError with a hint instead of torch's own."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise InputError(f"the GPU's memory is full: {hint}") from error


Name = TypeVar("Name")


def read_behind(results: Iterator[tuple[Name, Tensor]]) -> Iterator[tuple[Name, np.ndarray]]:
    """Yields each named result as an array, when the next one is under way: a GPU works while arrays are read and written."""
    waiting: tuple[Name, _Copy] | None = None
    for name, result in results:
        copy = _Copy(result)
        if waiting:
            yield waiting[0], waiting[1].array()
        waiting = name, copy
    if waiting:
        yield waiting[0], waiting[1].array()


class _Copy:
    """A tensor on its way to the memory of the CPU."""

    def __init__(self, tensor: Tensor) -> None:
        # From a GPU into pinned memory, behind the work that computes it and before any later work.
        self._tensor = tensor.to("cpu", non_blocking=True)
        self._done = torch.cuda.current_stream(tensor.device).record_event() if tensor.is_cuda else None

    def array(self) -> np.ndarray:
        if self._done is not None:
            self._done.synchronize()
        return self._tensor.numpy()
