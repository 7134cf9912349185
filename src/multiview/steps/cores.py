"""The cores that a step may use."""

from __future__ import annotations

import os
import sys

from multiview import environment


def cores() -> int:
    """Returns the number of cores that this process may run on, `OMP_NUM_THREADS` at most where that is set."""
    count = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    wanted = os.environ.get(environment.OMP_NUM_THREADS, "")
    return max(1, min(count, int(wanted))) if wanted.isdecimal() else count
