"""The device that a model runs on, the processes that tokenise ahead of it, and reading its results meanwhile."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from multiview import environment
from multiview.errors import InputError
from multiview.steps.processors import processors

Name = TypeVar("Name")

MOST_WORKERS = 8
"""Most processes per GPU that tokenise ahead of the model. On an H200 with 16 cores, 15 were no faster."""
CPU_WORKERS = 0
"""Processes that tokenise ahead without a GPU: none, since the model needs all cores and tokenising is a hundredth of its work."""

HALF = {"bfloat16": torch.bfloat16, "float16": torch.float16}
"""The data types of half precision by their names in `encode.compute` and `train.precision`."""


def device(name: str, setting: str) -> torch.device:
    """Returns the device called `name`; `auto` is the GPU if there is one, otherwise the CPU.

    Raises InputError that names `setting` for a device that does not exist, cannot compute, or is full.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:  # torch knows names of devices that it was not built for, and `meta` has no data
        torch.ones(1, device=name).item()
    except torch.OutOfMemoryError:  # a RuntimeError too
        raise InputError(
            f"{setting}: the memory of {name} is full; end what else uses it, or use cpu"
        ) from None
    except (RuntimeError, ImportError, AssertionError):
        raise InputError(f"{setting}: torch has no device {name!r} here; use auto, cpu or cuda") from None
    return torch.device(name)


def workers(device: torch.device) -> int:
    """Returns how many processes tokenise ahead: what the processors allow per GPU, or for this training process."""
    if device.type == "cpu":
        return CPU_WORKERS
    alone = environment.LOCAL_RANK not in os.environ  # else `processors` are this process's share
    share = processors() // (max(1, torch.cuda.device_count()) if alone else 1)
    return max(0, min(MOST_WORKERS, share - 1))


@contextmanager
def within_gpu_memory(hint: str) -> Iterator[None]:
    """A context in which running out of GPU memory raises InputError with a hint, in place of torch's own error."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise InputError(f"the GPU's memory is full: {hint}") from error


def read_behind(results: Iterator[tuple[Name, Tensor]]) -> Iterator[tuple[Name, np.ndarray]]:
    """Yields each named result as an array once the next is under way: a GPU computes while arrays are written."""
    waiting: tuple[Name, Tensor, torch.cuda.Event | None] | None = None
    for name, result in results:
        # Copied into pinned memory, after the work that computes the result and before any later work.
        copy = result.to("cpu", non_blocking=result.is_cuda)
        done = torch.cuda.Event() if result.is_cuda else None
        if done is not None:
            done.record(torch.cuda.current_stream(result.device))
        if waiting:
            yield _arrived(*waiting)
        waiting = name, copy, done
    if waiting:
        yield _arrived(*waiting)


def _arrived(name: Name, copy: Tensor, done: torch.cuda.Event | None) -> tuple[Name, np.ndarray]:
    if done is not None:
        done.synchronize()
    return name, copy.numpy()
