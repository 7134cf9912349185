"""Devices, and what works beside them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from multiview import environment
from multiview.errors import InputError
from multiview.model.devices import MOST_WORKERS, device, read_behind, within_gpu_memory, workers
from tests.fixtures.full_gpu import full


def test_a_full_gpu_has_a_hint_and_other_errors_stay_as_they_are() -> None:
    with (
        pytest.raises(InputError, match=r"^the GPU's memory is full: set it lower$"),
        within_gpu_memory("set it lower"),
    ):
        full()
    with pytest.raises(RuntimeError, match="shapes"), within_gpu_memory("set it lower"):
        raise RuntimeError("shapes do not fit")


def test_a_result_is_read_when_the_next_is_under_way() -> None:
    begun: list[str] = []

    def results() -> Iterator[tuple[str, torch.Tensor]]:
        for number, name in enumerate("abc"):
            begun.append(name)
            yield name, torch.tensor([number])

    seen = []
    for name, array in read_behind(results()):
        seen.append((name, *array.tolist(), len(begun)))
        assert isinstance(array, np.ndarray)
    assert seen == [("a", 0, 2), ("b", 1, 3), ("c", 2, 3)]
    assert list(read_behind(iter(()))) == []


@pytest.mark.parametrize(
    ("cores", "gpus", "expected"), [(1, 1, 0), (2, 1, 1), (16, 1, MOST_WORKERS), (16, 8, 1), (8, 8, 0)]
)
def test_workers_share_the_cores_of_a_machine_with_gpus(
    monkeypatch: pytest.MonkeyPatch, cores: int, gpus: int, expected: int
) -> None:
    monkeypatch.setattr("multiview.model.devices.processors", lambda: cores)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert workers(torch.device("cuda")) == expected
    assert workers(torch.device("cpu")) == 0
    monkeypatch.setenv(environment.LOCAL_RANK, "0")
    assert workers(torch.device("cuda")) == min(cores - 1, MOST_WORKERS), "a training process's share"


@pytest.mark.parametrize("name", ["meta", "gpu", "xla", "vulkan", "privateuseone", "hpu:0"])
def test_a_device_that_cannot_compute_here_is_refused(name: str) -> None:
    """torch knows some devices by name that it was not built for, and one that only pretends to compute."""
    with pytest.raises(InputError, match=rf"encode.device: .*{name}.*; use auto, cpu or cuda"):
        device(name, "encode.device")


def test_a_device_that_is_full_is_not_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "ones", full)
    with pytest.raises(InputError, match=r"^encode.device: the memory of cuda is full; .* or use cpu$"):
        device("cuda", "encode.device")
