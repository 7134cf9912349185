"""The processors of this process: those of its pod, whose node may have many more."""

import contextlib
import math
import os
import sys
from pathlib import Path

from multiview import environment

CGROUPS = Path("/sys/fs/cgroup")
"""The cgroup of a container, as the container sees it."""
LIMITS = (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"))
"""Files with its quota and period, in versions 2 and 1 of cgroups."""


def processors() -> int:
    """Returns the number of processors for threads and processes: `OMP_NUM_THREADS`, else the CPU limit, else the pod's
    request, else all that this process may run on; never more than the last."""
    here = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    chosen = os.environ.get(environment.OMP_NUM_THREADS, "")
    share = int(chosen) if chosen.isdecimal() else _pod_processors()
    return here if share is None else max(1, min(here, share))


def follow_pod() -> None:
    """Makes libraries that are loaded after this use only the pod's processors; variables that are set stay."""
    if _pod_processors():
        for variable in (environment.OMP_NUM_THREADS, environment.RAYON_NUM_THREADS):
            os.environ.setdefault(variable, str(processors()))


def _pod_processors() -> int | None:
    """The CPU limit, else the pod's request, in whole processors; None if there is neither."""
    for files in LIMITS:
        with contextlib.suppress(OSError, ValueError):  # ValueError: "max" in version 2
            quota, period = (int(number) for file in files for number in (CGROUPS / file).read_text().split())
            if quota > 0:
                return math.ceil(quota / period)
    return int(os.environ.get(environment.PROCESSORS) or 0) or None
