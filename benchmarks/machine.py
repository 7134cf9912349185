"""The machine that benchmarks run on: what it is, and whether others leave it alone."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

QUIET = 0.1
"""Share of all processors that others may use."""
LOOKS = 1.0
"""Seconds over which that share is measured."""


def busy_share(seconds: float) -> float:
    """Share of all processors' time, from 0 to 1, that is in use while this process sleeps for some seconds."""
    before = _processor_times()
    time.sleep(seconds)
    busy, total = (after - earlier for after, earlier in zip(_processor_times(), before, strict=True))
    return busy / total if total else 0.0


def _processor_times() -> tuple[int, int]:
    """Ticks of all processors since the machine's start: in use, and in all (proc_stat(5))."""
    line = Path("/proc/stat").read_text().splitlines()[0]
    ticks = [int(word) for word in line.split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


class Others:
    """Measures what other programs use of the processors from now on."""

    def __init__(self) -> None:
        self._own, (self._busy, self._total) = _own_ticks(), _processor_times()

    def share(self) -> float:
        """Their share of all processors' time so far, from 0 to 1, without children of this process that have ended."""
        busy, total = _processor_times()
        used = busy - self._busy - (_own_ticks() - self._own)
        return max(0.0, used / (total - self._total)) if total > self._total else 0.0


def _own_ticks() -> float:
    """Ticks of this process and of its children that have ended."""
    times = os.times()
    seconds = times.user + times.system + times.children_user + times.children_system
    return seconds * os.sysconf("SC_CLK_TCK")


def wait_until_quiet(limit: float) -> float:
    """Waits until others use no more than `QUIET` of the processors, for `limit` seconds at most; returns their share."""
    until = time.monotonic() + limit
    while (share := busy_share(LOOKS)) > QUIET and time.monotonic() < until:
        pass
    return share


def machine() -> str:
    """The machine and its software, in a line."""
    import torch

    described = Path("/proc/cpuinfo").read_text().splitlines()
    processor = next((line.partition(": ")[2] for line in described if line.startswith("model name")), "")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{processor or platform.machine()}, {os.cpu_count()} processors "
        f"({torch.backends.cpu.get_cpu_capability()}), {memory:.0f} GiB, Linux {platform.release()}, "
        f"Python {platform.python_version()}, torch {torch.__version__}"
    )
