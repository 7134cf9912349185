"""A pod that was promised GPUs and sees fewer fails with one line, before work starts."""

from dataclasses import replace

import pytest
import torch

from multiview.artifacts.store import LocalStore
from multiview.config import Config
from multiview.errors import InputError
from multiview.steps.backends.in_process import check_visible_gpus, work_here
from multiview.steps.context import StepContext
from multiview.steps.table import step
from multiview.steps.work import StepReporter, Work

SEEN = torch.cuda.device_count()


def test_a_pod_that_was_promised_none_takes_what_is_there(monkeypatch):
    for value in (None, "", "0", str(SEEN)):
        monkeypatch.delenv("MULTIVIEW_GPUS", raising=False)
        if value is not None:
            monkeypatch.setenv("MULTIVIEW_GPUS", value)
        check_visible_gpus()


def test_fewer_gpus_than_promised_are_one_line_with_the_likely_cause(monkeypatch):
    monkeypatch.setenv("MULTIVIEW_GPUS", str(SEEN + 2))
    with pytest.raises(InputError) as raised:
        check_visible_gpus()
    line = str(raised.value)
    assert line.startswith(f"this pod asked for {SEEN + 2} GPUs, and torch, built ") and "\n" not in line
    assert (
        f"sees {SEEN}" in line
        and "driver is likely too old for this torch (CUDA 13 needs 580 or newer)" in line
    )


def test_torch_s_own_words_are_passed_on(monkeypatch):
    """As torch warns of a driver that is too old for it, which only this process's CUDA would say."""
    words = "CUDA initialization: The NVIDIA driver on your system is too old (found version 12020). Please update"

    def is_available() -> bool:
        import warnings

        warnings.warn(words, stacklevel=1)
        return False

    monkeypatch.setattr(torch.cuda, "is_available", is_available)
    monkeypatch.setenv("MULTIVIEW_GPUS", "1")
    with pytest.raises(
        InputError, match=r"asked for 1 GPU, .* sees 0 \(torch: .*\(found version 12020\)\): "
    ):
        check_visible_gpus()


def begin(context: StepContext) -> None:
    """The function of a step, which says that it was called."""
    raise RuntimeError("begun")


@pytest.mark.parametrize("promised", [True, False])
def test_a_pod_that_was_promised_a_gpu_does_no_work_without_it(monkeypatch, tmp_path, promised):
    if promised:
        monkeypatch.setenv("MULTIVIEW_GPUS", str(SEEN + 1))
    declared = replace(step("index"), function_path="tests.steps.backends.test_in_process:begin")
    work = Work(declared, "{}", Config(), {}, {}, "k")
    error, words = (InputError, "this pod asked for") if promised else (RuntimeError, "begun")
    with pytest.raises(error, match=words):
        work_here(work, StepReporter(LocalStore(tmp_path / "store"), "r", "split", "split"))
