"""The processors of this process: those of its pod, of which the node may have many more."""

from __future__ import annotations

import contextlib
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from multiview import environment

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")
"""The groups of this process, a line each: NUMBER:CONTROLLERS:PATH, in version 2 of cgroups without controllers."""


def processors() -> int:
    """Returns the number of processors for threads and processes: what `OMP_NUM_THREADS` says, else the CPU limit, else
    what the pod requests, else all that this process may run on; never more than these."""
    here = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    chosen = os.environ.get(environment.OMP_NUM_THREADS, "")
    share = int(chosen) if chosen.isdecimal() else _pod_processors()
    return here if share is None else max(1, min(here, share))


def follow_pod() -> None:
    """Makes the libraries that are loaded after this use the pod's processors; what a person has set stays."""
    if _pod_processors() is not None:
        for variable in (environment.OMP_NUM_THREADS, environment.RAYON_NUM_THREADS):
            os.environ.setdefault(variable, str(processors()))


def _pod_processors() -> int | None:
    """The CPU limit, else the pod's request, in whole processors; None where there is neither."""
    if (limit := min(_limits(), default=math.inf)) < math.inf:
        return math.ceil(limit)
    return int(os.environ.get(environment.PROCESSORS) or 0) or None


def _limits() -> Iterator[float]:
    """Yields the limits of this process's groups and the groups above them, as far as a container sees them."""
    with contextlib.suppress(OSError):
        for line in OWN_CGROUPS.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers or "cpu" in controllers.split(","):
                root = CGROUPS / "cpu" if controllers else CGROUPS
                for group in (own := PurePosixPath(path.lstrip("/")), *own.parents):
                    yield from _limit(root / group)


def _limit(group: Path) -> Iterator[float]:
    for files in (["cpu.max"], ["cpu.cfs_quota_us", "cpu.cfs_period_us"]):  # version 2, version 1
        with contextlib.suppress(OSError, ValueError):  # ValueError: "max" in version 2
            quota, period = (int(number) for file in files for number in (group / file).read_text().split())
            if quota > 0:
                yield quota / period
