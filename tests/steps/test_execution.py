"""One step: its outputs are found or made, and it ends with its driver."""

import signal
import subprocess
import sys
import time
from pathlib import Path

ORPHAN = """
import os, sys, time
from multiview.steps.execution import watch_driver
watch_driver()
print("working", flush=True)
time.sleep(60)
"""

DRIVER = """
import os, subprocess, sys, time
from pipelines.runs.local import _driver_lock
with _driver_lock():
    step = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE, text=True)
    print(step.pid, step.stdout.readline(), flush=True)
    time.sleep(60)
"""


def test_a_step_whose_driver_is_killed_ends_by_itself():
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, ORPHAN], stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    step = int(driver.stdout.readline().split()[0])
    time.sleep(1.5)
    assert Path(f"/proc/{step}").exists()
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    deadline = time.monotonic() + 20
    while Path(f"/proc/{step}").exists() and "State:\tZ" not in Path(f"/proc/{step}/status").read_text():
        assert time.monotonic() < deadline, "the orphaned step goes on"
        time.sleep(0.1)
